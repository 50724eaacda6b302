"""Tests mirror the source: every test module in a mirrored folder names the module it tests."""

from __future__ import annotations

from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_MIRRORED = ("runtime", "balancer", "clients", "perf")
_WITHOUT_SOURCE = {
    "tests/balancer/routing/test_conformance.py",  # one suite over all of balancer/routing/policies
    "tests/runtime/engines/test_echo_agent.py",  # examples/echo_agent.py, beside the agents it is an example for
    "tests/runtime/engines/test_client_tools_agent.py",  # examples/client_tools_agent.py, likewise
}


def _mirrored_tests() -> list[Path]:
    return [test.relative_to(_ROOT) for package in _MIRRORED for test in sorted((_ROOT / "tests" / package).rglob("test_*.py"))]


@pytest.mark.parametrize("test", [test for test in _mirrored_tests() if str(test) not in _WITHOUT_SOURCE], ids=str)
def test_a_test_names_its_module(test: Path) -> None:
    folder = _ROOT / Path(*test.parts[1:-1])
    name = test.stem.removeprefix("test_")
    assert (folder / f"{name}.py").exists() or (folder / name / "__init__.py").exists()


def test_mirrored_folders_are_no_packages() -> None:
    """An __init__.py there would shadow the real package (pytest's import modes)."""
    packages = [path for package in _MIRRORED for path in (_ROOT / "tests" / package).rglob("__init__.py")]
    assert [str(path.relative_to(_ROOT)) for path in packages if "support" not in path.parts] == []
