"""The peers' load generator, compiled once for this machine: Python would be the bottleneck of what it measures."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

__all__ = ["NoCompiler", "frames_program"]

_SOURCE: Final = Path(__file__).parent / "frames.c"


class NoCompiler(Exception):
    """There is no C compiler, or it failed; the text is its own."""


def frames_program(folder: Path) -> Path:
    """Builds `frames` in `folder`, unless that version is there. Raises NoCompiler."""
    compiler = os.environ.get("CC") or next((name for name in ("cc", "gcc", "clang") if shutil.which(name)), None)
    if compiler is None:
        raise NoCompiler("a C compiler is needed (Debian: apt-get install --no-install-recommends gcc libc6-dev)")
    program = folder / f"frames-{hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:12]}"
    if not program.exists():
        done = subprocess.run([compiler, "-O2", "-o", str(program), str(_SOURCE)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise NoCompiler(f"{compiler}: {done.stderr.strip()[:400]}")
    return program
