"""The product as users get it: the built wheel, unpacked apart from the checkout, and the programs that run from it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the built wheel is installed; the dependencies are this environment's own."""
    folder = tmp_path_factory.mktemp("wheel")
    built, installed = folder / "dist", folder / "installed"
    _run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(built), str(_ROOT)])
    (package,) = built.glob("*.whl")
    _run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(installed), str(package)])
    return installed


@pytest.fixture
def from_wheel(wheel: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Makes this test's child processes import the product from the wheel; answers its folder."""
    monkeypatch.setenv("PYTHONPATH", str(wheel))
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    monkeypatch.chdir(tmp_path)
    seen = _run([sys.executable, "-c", "import runtime, balancer, perf; print(runtime.__file__)"])
    assert seen.strip().startswith(str(wheel)), "the programs must come from the wheel"
    return wheel


def _run(command: list[str]) -> str:
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)
    assert done.returncode == 0, f"{command} failed:\n{done.stdout}\n{done.stderr}"
    return done.stdout
