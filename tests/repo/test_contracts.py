"""The import contracts bite: one bad import in a copy of the tree breaks them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_PACKAGES = ("runtime", "balancer", "protos", "clients", "perf")


def _lint(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache", "--config", "pyproject.toml"]
    environment = {"PYTHONPATH": str(folder), "PATH": str(Path(sys.executable).parent)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tree")
    for package in _PACKAGES:
        shutil.copytree(_ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__", "*.wav"))
    shutil.copy(_ROOT / "pyproject.toml", folder)
    return folder


def test_the_tree_keeps_its_contracts(copied: Path) -> None:
    done = _lint(copied)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("file", "line", "contract"),
    [
        ("runtime/session/ledger.py", "import time", "pure rooms"),
        ("runtime/dialogue/context.py", "import runtime.conversation", "runtime: rooms import only downwards"),
        ("balancer/capacity/freshness.py", "import balancer.placement", "balancer: rooms import only downwards"),
        ("balancer/fleet/books.py", "import runtime.session", "only primitives and wire"),
        ("runtime/app/serve.py", "import balancer", "the runtime knows no balancer"),
        ("clients/realtime.py", "import runtime", "clients import only protos"),
        ("balancer/app/serve.py", "import perf", "nothing that ships"),
        ("runtime/conversation/ports.py", "import protos.switchboard.v1.load_pb2", "protos are seen only at the edges"),
    ],
)
def test_a_bad_import_breaks_its_contract(copied: Path, file: str, line: str, contract: str) -> None:
    path = copied / file
    whole = path.read_text()
    try:
        path.write_text(whole + f"\n{line}\n")
        done = _lint(copied)
    finally:
        path.write_text(whole)
    assert done.returncode != 0
    broken = [text for text in done.stdout.splitlines() if " BROKEN" in text]
    assert any(contract in text for text in broken), done.stdout


def test_an_undeclared_room_breaks_the_build(copied: Path) -> None:
    room = copied / "runtime" / "attic"
    try:
        room.mkdir()
        (room / "__init__.py").write_text("")
        done = _lint(copied)
    finally:
        shutil.rmtree(room)
    assert done.returncode != 0
