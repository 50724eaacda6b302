"""What must not be in the tree, and how long a file may be."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_LONGEST = 300
_LONGER_WITH_REASON = {
    "runtime/conversation/conversation.py": "the tasks of one session, what each event does, and the order of the end",
    "runtime/conversation/speaker.py": "every way in which one reply begins, waits and ends",
    "runtime/conversation/turns.py": "every action of the turn table, beside each other",
    "runtime/dialogue/agent_events.py": "one closed list of small values; a codec reads it whole",
}
_FORBIDDEN = re.compile(
    r"/[w]ork/|/[r]oot/|/tmp/[b]ash|[p]ypi\.org|files\.[p]ythonhosted|registry\.[n]pmjs|deb\.[d]ebian\.org", re.IGNORECASE
)
_DETACHED = re.compile(r"asyncio\.(create_task|ensure_future|gather)\(|Queue\(\)")
_SLEEPING = re.compile(r"[^_a-z]sleep\(")


def _tracked(*patterns: str) -> list[str]:
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=_ROOT, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.splitlines() if (_ROOT / name).exists()]


def _own_python() -> list[str]:
    return [name for name in _tracked("*.py") if not re.search(r"_pb2(_grpc)?\.py$", name)]


pytestmark = pytest.mark.skipif(not (_ROOT / ".git").exists(), reason="needs the git checkout")


def test_no_machine_path_and_no_registry_host() -> None:
    found = []
    for name in _tracked():
        try:
            text = (_ROOT / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{name}:{number}" for number, line in enumerate(text.splitlines(), 1) if _FORBIDDEN.search(line)]
    assert found == []


def test_files_stay_short() -> None:
    long = {name for name in _own_python() if len((_ROOT / name).read_text().splitlines()) > _LONGEST}
    tests = {name for name in long if name.startswith("tests/")}
    assert long - tests == set(_LONGER_WITH_REASON), "a longer file is named here with its reason"


def test_no_detached_task_and_no_unbounded_queue() -> None:
    found = [name for name in _own_python() if not name.startswith("tests/") and _DETACHED.search((_ROOT / name).read_text())]
    assert found == []


def test_no_test_sleeps() -> None:
    """Support code may poll a condition against a deadline; a test waits for what it waits for."""
    found = [
        f"{name}:{number}"
        for name in _own_python()
        if Path(name).name.startswith("test_") and Path(name).name != "test_contents.py"
        for number, line in enumerate((_ROOT / name).read_text().splitlines(), 1)
        if _SLEEPING.search(line) and "sleep_forever" not in line
    ]
    assert found == []


def test_broad_catches_are_few_and_known() -> None:
    """Catches that swallow; clean-up that re-raises (`except BaseException`) is another thing."""
    found = {
        name
        for name in _own_python()
        if not name.startswith("tests/") and re.search(r"except \(?Exception\b", (_ROOT / name).read_text())
    }
    assert found == {
        "balancer/front/front_server.py",  # one caller's request is the boundary of the front
        "balancer/front/grpc_door.py",  # the same for a call over gRPC
        "balancer/front/search.py",  # one call's search for a runtime is the boundary there
        "runtime/conversation/calls.py",  # the session is the boundary of a runtime
        "runtime/conversation/reply.py",  # the agent author's code
        "runtime/conversation/tool_runner.py",  # the agent author's tools
    }
