"""The allowed cores inside a real control group, where this machine lets one be made."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

_QUOTA_US, _PERIOD_US = 50_000, 100_000
_CHILD = (
    "import os, sys; open(sys.argv[1], 'w').write(str(os.getpid())); "
    "from runtime.load.allowed_cores import allowed_cores; found = allowed_cores(64); print(found.cores, found.source)"
)


@pytest.fixture
def group() -> Iterator[Path]:
    """A group with half a core, on cgroup v1 or v2; skips with the reason where none can be made."""
    root = Path("/sys/fs/cgroup")
    is_v2 = (root / "cgroup.controllers").exists()
    folder = (root if is_v2 else root / "cpu") / "switchboard-test"
    try:
        folder.mkdir()
        if is_v2:
            (folder / "cpu.max").write_text(f"{_QUOTA_US} {_PERIOD_US}")
        else:
            (folder / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
            (folder / "cpu.cfs_quota_us").write_text(str(_QUOTA_US))
    except OSError as error:
        if folder.is_dir():
            folder.rmdir()
        pytest.skip(f"no control group can be made here: {error}")
    yield folder
    folder.rmdir()


def test_a_real_quota_is_found(group: Path) -> None:  # requirement S5
    command = [sys.executable, "-c", _CHILD, str(group / "cgroup.procs")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    cores, _, source = done.stdout.strip().partition(" ")
    assert float(cores) == _QUOTA_US / _PERIOD_US
    assert "quota" in source


def test_a_real_cpuset_is_at_most_the_affinity() -> None:
    done = subprocess.run([sys.executable, "-c", _CHILD, "/dev/null"], capture_output=True, text=True, timeout=60, check=True)
    assert 0 < float(done.stdout.split()[0]) <= 64
