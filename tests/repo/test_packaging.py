"""Locks are hashed and name no index; the distribution owns its packages alone."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_PACKAGES = ["runtime", "balancer", "protos", "clients", "perf"]


@pytest.mark.parametrize("lock", sorted((_ROOT / "requirements").glob("*.lock")), ids=lambda path: path.name)
def test_a_lock_is_hashed_and_names_no_index(lock: Path) -> None:
    text = lock.read_text()
    assert not re.search(r"^--|https?://", text, re.MULTILINE)
    requirements = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)[1:]
    assert requirements
    assert all("--hash=sha256:" in requirement for requirement in requirements)


def test_the_wheel_holds_exactly_the_five_packages() -> None:
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == _PACKAGES


def test_nobody_else_owns_our_package_names() -> None:
    owners = packages_distributions()
    for package in _PACKAGES:
        assert set(owners.get(package, ["voice-switchboard"])) == {"voice-switchboard"}
