"""A process leaves with whoever started it: at the end of standard input, whatever that is, and even where its loop hangs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

pytestmark = pytest.mark.e2e

_ROOT = Path(__file__).parents[3]
_WAITS = """
import anyio
from runtime.app.starter import until_starter_is_gone
print("here", flush=True)
anyio.run(until_starter_is_gone, backend_options={"use_uvloop": True})
print("gone", flush=True)
"""
_HANGS = """
import threading
from runtime.app.starter import leave_for_sure
leave_for_sure(0.0)
print("here", flush=True)
threading.Event().wait()
"""


def _start(script: str, stdin: int | IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", script], stdin=stdin, stdout=subprocess.PIPE, cwd=_ROOT)


def test_it_is_the_end_that_counts_and_not_a_word() -> None:
    with _start(_WAITS, subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"here\n"
        process.stdin.write(b"not yet\n" * 10_000)  # more than the pipe holds: it reads
        process.stdin.flush()
        process.stdin.close()
        assert process.stdout.readline() == b"gone\n"
        assert process.wait(60) == 0


def test_where_nobody_holds_it_open_it_has_ended(tmp_path: Path) -> None:
    with (tmp_path / "empty").open("w+b") as file, _start(_WAITS, subprocess.DEVNULL) as null, _start(_WAITS, file) as other:
        for process in (null, other):
            assert process.communicate(timeout=60)[0] == b"here\ngone\n"


def test_a_process_that_hangs_ends_too() -> None:
    with _start(_HANGS, subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"here\n"
        assert process.poll() is None
        process.stdin.close()
        assert process.wait(60) == 1
