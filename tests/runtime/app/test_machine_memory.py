"""The machine's shared memory: one living owner, stale segments recognised, readers across mappings."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runtime.app.machine_memory import MachineMemory, MemoryInUse, NoMachineMemory, process_start
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


def test_a_living_owner_keeps_its_segment(tmp_path: Path) -> None:
    MachineMemory.create(tmp_path / "m", _LAYOUT)
    with pytest.raises(MemoryInUse, match=f"belongs to process {os.getpid()}"):
        MachineMemory.create(tmp_path / "m", _LAYOUT)


@pytest.mark.parametrize(
    ("word", "value", "was"),
    [
        (Header.OWNER_START, 1, "which is gone"),  # the pid came again: another process
        (Header.OWNER_PID, 2**31, "which is gone"),
        (Header.VERSION, 99, "another version"),
        (Header.MAGIC, 0, "another version"),
    ],
)
def test_a_stale_segment_is_replaced_and_described(tmp_path: Path, word: int, value: int, was: str) -> None:
    MachineMemory.create(tmp_path / "m", _LAYOUT)
    _overwrite(tmp_path / "m", word, value)
    memory, before = MachineMemory.create(tmp_path / "m", Layout(1, 1))
    assert was in before
    assert memory.layout == Layout(1, 1)


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
