"""The machine's shared memory: one living owner, stale segments recognised, readers across mappings."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from runtime.app.machine_memory import MachineMemory, MemoryInUse, NoMachineMemory, NotOurMemory, process_start
from runtime.primitives.ids import Epoch, SessionId
from runtime.primitives.reasons import EndReason
from runtime.session.shared_layout import Header, Layout

_LAYOUT = Layout(2, 3)


def _overwrite(path: Path, word: int, value: int) -> None:
    with path.open("r+b") as file:
        file.seek(8 * word)
        file.write(value.to_bytes(8, "little"))


def test_another_mapping_sees_what_the_writer_counts(tmp_path: Path) -> None:  # requirement S3
    owner, before = MachineMemory.create(tmp_path / "m", _LAYOUT)
    assert before == ""
    shard = MachineMemory.attach(tmp_path / "m").shard(1)
    shard.claim(os.getpid())
    shard.start(SessionId("a"), Epoch(1))
    shard.end(shard.start(SessionId("b"), Epoch(1)), EndReason.DRAINED)
    totals = owner.totals()
    assert (totals.started, totals.active, dict(totals.ended)) == (2, 1, {"drained": 1})
    assert owner.shard(1).live() == [("a", 1)]
    owner.close()
    assert not (tmp_path / "m").exists()


def _leave_behind(path: Path, **words: int) -> None:
    """What another process would leave: nobody holds its lock. `words` of the header are changed."""
    memory, _ = MachineMemory.create(path.with_suffix(".made"), _LAYOUT)
    shutil.copy(memory.path, path)
    memory.close()
    for name, value in words.items():
        _overwrite(path, getattr(Header, name), value)


def test_a_living_owner_keeps_its_segment(tmp_path: Path) -> None:
    owner, _ = MachineMemory.create(tmp_path / "m", _LAYOUT)
    with pytest.raises(MemoryInUse, match=rf"living supervisor \(process {os.getpid()}\)"):
        MachineMemory.create(tmp_path / "m", _LAYOUT)
    assert owner.is_at_path()
    assert [each.name for each in tmp_path.iterdir()] == ["m"]


@pytest.mark.parametrize("words", [{}, {"VERSION": 99}, {"SHARDS": 0}])
def test_an_owner_lives_whatever_its_version_and_with_or_without_a_lock(tmp_path: Path, words: dict[str, int]) -> None:
    _leave_behind(tmp_path / "m", **words)  # the owner is this process
    with pytest.raises(MemoryInUse):
        MachineMemory.create(tmp_path / "m", _LAYOUT)
    locked, _ = MachineMemory.create(tmp_path / "l", _LAYOUT)
    for name, value in {**words, "OWNER_PID": 2**31}.items():  # of another process namespace, say
        _overwrite(tmp_path / "l", getattr(Header, name), value)
    with pytest.raises(MemoryInUse):
        MachineMemory.create(tmp_path / "l", _LAYOUT)
    assert locked.is_at_path()


@pytest.mark.parametrize(
    ("words", "was"),
    [
        ({"OWNER_START": 1}, f"a segment of process {os.getpid()}, which is gone"),  # the pid came again: another process
        ({"OWNER_PID": 2**31}, f"a segment of process {2**31}, which is gone"),
        ({"OWNER_START": 1, "VERSION": 99}, f"a segment of process {os.getpid()}, which is gone, of version 99"),
    ],
)
def test_a_stale_segment_is_replaced_and_described(tmp_path: Path, words: dict[str, int], was: str) -> None:
    _leave_behind(tmp_path / "m", **words)
    memory, before = MachineMemory.create(tmp_path / "m", Layout(1, 1))
    assert before == was
    assert MachineMemory.attach(tmp_path / "m").layout == memory.layout == Layout(1, 1)


@pytest.mark.parametrize("content", [b"", b"my notes\n" * 100, bytes(4096)])
def test_a_file_that_is_not_ours_is_refused_and_kept(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m").write_bytes(content)
    with pytest.raises(NotOurMemory, match=r"\(shared_memory\) exists and is no shared memory"):
        MachineMemory.create(tmp_path / "m", _LAYOUT)
    assert (tmp_path / "m").read_bytes() == content
    assert [each.name for each in tmp_path.iterdir()] == ["m"]


def test_a_folder_a_link_and_a_pipe_are_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    _leave_behind(tmp_path / "stale", OWNER_START=1)
    (tmp_path / "link").symlink_to(tmp_path / "stale")
    os.mkfifo(tmp_path / "pipe")
    for name in ("folder", "link", "pipe"):
        with pytest.raises(NotOurMemory):
            MachineMemory.create(tmp_path / name, _LAYOUT)
    with pytest.raises(OSError, match=r"none/m \(shared_memory\): No such file"):
        MachineMemory.create(tmp_path / "none" / "m", _LAYOUT)


def test_closing_removes_only_ones_own_file(tmp_path: Path) -> None:
    first, _ = MachineMemory.create(tmp_path / "m", _LAYOUT)
    (tmp_path / "m").unlink()
    second, before = MachineMemory.create(tmp_path / "m", _LAYOUT)
    assert before == ""
    first.close()
    assert second.is_at_path()
    second.close()
    second.close()
    assert list(tmp_path.iterdir()) == []


def test_a_worker_that_inherits_the_descriptor_needs_no_file(tmp_path: Path) -> None:
    owner, _ = MachineMemory.create(tmp_path / "m", _LAYOUT)
    (tmp_path / "m").unlink()
    assert not owner.is_at_path()
    shard = MachineMemory.attach(Path(f"/proc/self/fd/{owner.descriptor}")).shard(0)
    shard.claim(os.getpid())
    shard.start(SessionId("a"), Epoch(1))
    assert owner.totals().active == 1


_RIVAL = """
import sys
from pathlib import Path
from runtime.app.machine_memory import MachineMemory, MemoryInUse
from runtime.session.shared_layout import Layout
print("here", flush=True)
sys.stdin.readline()
try:
    memory, _ = MachineMemory.create(Path(sys.argv[1]), Layout(2, 3))
    print("mine" if memory.is_at_path() else "stolen", flush=True)
except MemoryInUse:
    print("in use", flush=True)
sys.stdin.readline()
"""


@pytest.mark.e2e
def test_of_supervisors_that_start_at_once_one_replaces_a_stale_segment(tmp_path: Path) -> None:
    _leave_behind(tmp_path / "m", OWNER_START=1)
    command = [sys.executable, "-c", _RIVAL, str(tmp_path / "m")]
    root = Path(__file__).parents[3]
    with ExitStack() as stack:
        rivals = [
            stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root))
            for _ in range(6)
        ]
        ends = [(each.stdin, each.stdout) for each in rivals]
        answers = []
        for _, out in ends:
            assert out is not None
            assert out.readline() == "here\n"
        for into, _ in ends:
            assert into is not None
            into.write("go\n")
            into.flush()
        for _, out in ends:
            assert out is not None
            answers.append(out.readline().strip())
        for each in rivals:
            each.communicate("\n", timeout=60)
    assert sorted(answers) == ["in use"] * 5 + ["mine"]


def test_what_is_no_segment_is_not_attached(tmp_path: Path) -> None:
    with pytest.raises(NoMachineMemory, match="No such file"):
        MachineMemory.attach(tmp_path / "none")
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(NoMachineMemory, match="cannot be mapped"):
        MachineMemory.attach(tmp_path / "empty")
    (tmp_path / "junk").write_bytes(b"x" * 4099)
    with pytest.raises(NoMachineMemory, match="another layout"):
        MachineMemory.attach(tmp_path / "junk")


def test_a_process_is_named_for_good_by_its_start() -> None:
    assert process_start(os.getpid()) > 0
    assert process_start(2**31) == 0
