"""The machine's shared memory as a file: made by the supervisor, mapped by its workers and by anyone who reads."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Final, Self

from runtime.primitives.errors import Fault, VoiceError
from runtime.primitives.ids import Epoch, SessionId
from runtime.primitives.load_snapshot import LegTotals
from runtime.session.shared_layout import Header, Layout
from runtime.session.shared_shard import Shard
from runtime.session.shared_totals import add_up, read_layout, read_shard, write_header

__all__ = ["MachineMemory", "MemoryInUse", "NoMachineMemory", "default_path", "process_start"]

_MEMORY_FOLDER: Final = Path("/dev/shm")


class MemoryInUse(VoiceError):
    """Another supervisor lives and owns the segment of this machine id."""

    code = "machine_memory_in_use"
    fault = Fault.ENVIRONMENT

    def __init__(self, path: Path, pid: int) -> None:
        self.path = path
        self.pid = pid
        super().__init__(f"{path} belongs to process {pid}, which is alive; choose another machine_id or stop it")


class NoMachineMemory(VoiceError):
    """There is no segment of this version at the path."""

    code = "no_machine_memory"
    fault = Fault.ENVIRONMENT

    def __init__(self, path: Path, why: str) -> None:
        self.path = path
        super().__init__(f"{path}: {why}; expected the shared memory of a running supervisor of the same version")


def default_path(machine_id: str) -> Path:
    """Where a machine's segment lies unless the settings say otherwise: in memory, one for each user and machine id."""
    folder = _MEMORY_FOLDER if _MEMORY_FOLDER.is_dir() else Path(os.environ.get("TMPDIR", "/tmp"))
    return folder / f"switchboard-{os.getuid()}-{machine_id}"


def process_start(pid: int) -> int:
    """When a process began, in the kernel's clock ticks since boot; 0 where there is no such process.

    With the pid it names a process for good: pids come again, a pid with its start does not.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[19])
    except (OSError, IndexError, ValueError):
        return 0


class MachineMemory:
    """A mapped segment. The maker removes the file when it closes."""

    def __init__(self, path: Path, mapped: mmap.mmap, layout: Layout, *, is_owner: bool) -> None:
        self.path = path
        self.layout = layout
        self._mapped = mapped
        self._is_owner = is_owner
        self._data = memoryview(mapped)
        self._words = self._data.cast("Q")

    @classmethod
    def create(cls, path: Path, layout: Layout) -> tuple[Self, str]:
        """Makes the segment; answers it and what stood there before, for the log (empty: nothing).

        A segment of another version, or of a supervisor that is gone, is replaced. Raises MemoryInUse.
        """
        before = _describe(path)
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.ftruncate(descriptor, layout.total_bytes)
            mapped = mmap.mmap(descriptor, layout.total_bytes)
        finally:
            os.close(descriptor)
        memory = cls(path, mapped, layout, is_owner=True)
        write_header(memory._words, layout, os.getpid(), process_start(os.getpid()))
        return memory, before

    @classmethod
    def attach(cls, path: Path) -> Self:
        """Maps a living segment. Raises NoMachineMemory."""
        try:
            descriptor = os.open(path, os.O_RDWR)
        except OSError as error:
            raise NoMachineMemory(path, error.strerror or "cannot be opened") from error
        try:
            mapped = mmap.mmap(descriptor, 0)
        except (OSError, ValueError) as error:
            raise NoMachineMemory(path, "it cannot be mapped") from error
        finally:
            os.close(descriptor)
        words = memoryview(mapped)[: len(mapped) // 8 * 8].cast("Q")
        layout = read_layout(words)
        words.release()
        if layout is None:
            raise NoMachineMemory(path, "it has another layout")
        return cls(path, mapped, layout, is_owner=False)

    def shard(self, index: int) -> Shard:
        """The writer's end of a shard; one process at a time claims it."""
        return Shard(self._words, self._data, self.layout, index)

    def totals(self) -> LegTotals:
        """The machine's totals. Raises TornShard."""
        return add_up(self._words, self.layout)

    def shard_totals(self, index: int) -> LegTotals:
        """One shard's totals at one instant. Raises TornShard."""
        return read_shard(self._words, self.layout, index)

    def live(self) -> list[tuple[SessionId, Epoch]]:
        """Every leg that the identity slots name now."""
        return [leg for index in range(self.layout.shards) for leg in self.shard(index).live()]

    def close(self) -> None:
        """Unmaps; the maker also removes the file. Shards are not used after it."""
        if self._is_owner:
            self.path.unlink(missing_ok=True)


def _describe(path: Path) -> str:
    """What stands at the path: empty where nothing does. Raises MemoryInUse where its owner lives."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return ""
    words = memoryview(data)[: len(data) // 8 * 8].cast("Q")
    if read_layout(words) is None:
        return "a segment of another version"
    pid, start = words[Header.OWNER_PID], words[Header.OWNER_START]
    if start and process_start(pid) == start:
        raise MemoryInUse(path, pid)
    return f"a segment of process {pid}, which is gone"
