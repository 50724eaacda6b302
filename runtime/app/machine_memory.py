"""The machine's shared memory as a file: made by the supervisor, mapped by its workers and by anyone who reads.

The file appears whole, by a link, and its owner holds a lock (flock) on it for life: of two supervisors that start at once, one
gets the path. Only a file with our magic is ever removed, and only by who holds its lock.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import stat
import time
from pathlib import Path
from typing import Final, Self

from runtime.primitives.errors import Fault, VoiceError
from runtime.primitives.ids import Epoch, SessionId
from runtime.primitives.load_snapshot import LegTotals
from runtime.session.shared_layout import MAGIC, VERSION, Header, Layout
from runtime.session.shared_shard import Shard
from runtime.session.shared_totals import add_up, read_cells, read_layout, read_shard, write_header

__all__ = ["MachineMemory", "MemoryInUse", "NoMachineMemory", "NotOurMemory", "default_path", "process_start"]

_MEMORY_FOLDER: Final = Path("/dev/shm")
_PAUSE_S: Final = 50e-6


class MemoryInUse(VoiceError):
    """Another supervisor lives and owns the segment of this machine id."""

    code = "machine_memory_in_use"
    fault = Fault.ENVIRONMENT

    def __init__(self, path: Path, pid: int) -> None:
        self.path = path
        self.pid = pid
        super().__init__(f"{path} belongs to a living supervisor (process {pid}); choose another machine_id or stop it")


class NotOurMemory(VoiceError):
    """What stands at the path was not made by a supervisor. It is left as it is."""

    code = "not_our_memory"
    fault = Fault.ENVIRONMENT

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(f"{path} (shared_memory) exists and is no shared memory of a supervisor; choose another path")


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


def _let_others_run() -> None:
    time.sleep(_PAUSE_S)


class MachineMemory:
    """A mapped segment. The maker removes the file when it closes.

    Attributes:
        descriptor: the segment itself, for a worker to inherit: the same memory even where its file was removed.
            -1: not the maker's.
    """

    def __init__(self, path: Path, mapped: mmap.mmap, layout: Layout, *, descriptor: int = -1) -> None:
        self.path = path
        self.layout = layout
        self.descriptor = descriptor
        self._mapped = mapped
        self._data = memoryview(mapped)
        self._words = self._data.cast("Q")

    @classmethod
    def create(cls, path: Path, layout: Layout) -> tuple[Self, str]:
        """Makes the segment; answers it and what stood there before, for the log (empty: nothing).

        A segment whose supervisor is gone is replaced. Raises MemoryInUse, NotOurMemory, or OSError with the path.
        """
        draft = path.with_name(f"{path.name}.{os.getpid()}")
        try:
            draft.unlink(missing_ok=True)  # of a process of our number that was killed here
            locked = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise OSError(f"cannot make {path} (shared_memory): {error.strerror}") from error
        try:
            # The mapping keeps this open file, and so the lock, until the process ends. Workers inherit another one without it.
            fcntl.flock(locked, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.posix_fallocate(locked, 0, layout.total_bytes)  # a full memory is said here, not by SIGBUS at some store
            mapped = mmap.mmap(locked, layout.total_bytes)
            memory = cls(path, mapped, layout, descriptor=os.open(draft, os.O_RDWR | os.O_CLOEXEC))
            write_header(memory._words, layout, os.getpid(), process_start(os.getpid()))
            return memory, _put(draft, path)
        except OSError as error:
            raise OSError(f"cannot make {path} of {layout.total_bytes} bytes (shared_memory): {error.strerror}") from error
        finally:
            os.close(locked)
            draft.unlink(missing_ok=True)

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
        return cls(path, mapped, layout)

    def shard(self, index: int) -> Shard:
        """The writer's end of a shard; one process at a time claims it."""
        return Shard(self._words, self._data, self.layout, index)

    def totals(self) -> LegTotals:
        """The machine's totals. Where a writer died in mid-change: blocks for some 20 ms, and raises TornShard."""
        return add_up(self._words, self.layout, _let_others_run)

    def shard_totals(self, index: int) -> LegTotals:
        """One shard's totals at one instant. Raises TornShard."""
        return read_shard(self._words, self.layout, index, _let_others_run)

    def shard_cells(self, index: int) -> list[int]:
        """One shard's counter block at one instant, as `Cell` has it. Raises TornShard."""
        return read_cells(self._words, self.layout, index, _let_others_run)

    def live(self) -> list[tuple[SessionId, Epoch]]:
        """Every leg that the identity slots name now."""
        return [leg for index in range(self.layout.shards) for leg in self.shard(index).live()]

    def is_at_path(self) -> bool:
        """Whether the maker's file is still what stands at the path."""
        return _is_at(self.path, self.descriptor)

    def close(self) -> None:
        """The maker removes the file, if it is still its own; the mapping goes with the process. Shards are not used after it."""
        if self.descriptor >= 0:
            if self.is_at_path():
                self.path.unlink(missing_ok=True)
            os.close(self.descriptor)
            self.descriptor = -1


def _put(draft: Path, path: Path) -> str:
    """Gives the finished draft its name; answers what it took the place of. Raises MemoryInUse or NotOurMemory."""
    before = ""
    while True:
        try:
            os.link(draft, path)
        except FileExistsError:
            before = _clear(path) or before
        else:
            return before


def _clear(path: Path) -> str:
    """Removes a segment whose owner is gone, and describes it; empty where something else has come in its place."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise NotOurMemory(path) from error
    try:
        head = os.pread(descriptor, 8 * Header.WORDS, 0) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
        words = memoryview(head)[: len(head) // 8 * 8].cast("Q")
        if len(words) < Header.WORDS or words[Header.MAGIC] != MAGIC:
            raise NotOurMemory(path)
        pid, start, version = words[Header.OWNER_PID], words[Header.OWNER_START], words[Header.VERSION]
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # its owner, or another supervisor that is about to replace it
            raise MemoryInUse(path, pid) from None
        if start and process_start(pid) == start:  # an owner that took no lock
            raise MemoryInUse(path, pid)
        if not _is_at(path, descriptor):
            return ""
        path.unlink()
        return f"a segment of process {pid}, which is gone" + (f", of version {version}" if version != VERSION else "")
    finally:
        os.close(descriptor)


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
