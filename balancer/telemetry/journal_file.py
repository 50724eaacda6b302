"""The journal on disk: written in the background, bounded, begun anew where it cannot keep up.

Two files at most, `FILE` and `FILE.1`, each half of the bound: a full one becomes the second and the next begins with the whole
state, so each can be replayed by itself. Entries wait in memory, 100,000 at most; where the disk is slower than that, those are
thrown away and the file goes on from the whole state. A disk that fails ends the journal, never the balancer.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TextIO

import anyio
import anyio.to_thread
import structlog

from balancer.routing.checkpoint import to_json
from balancer.routing.journal import Checkpoint, Entry, Header
from balancer.routing.journal_lines import entry_to_line, header_to_line

__all__ = ["JournalFile"]

_WAITING: Final = 100_000
_EVERY_S: Final = 0.1
_LAST_S: Final = 2.0


class JournalFile:
    """`note` may be called from the start; `run` writes, and ends only by cancellation, with what still waits. Raises OSError
    where the file cannot be made."""

    def __init__(
        self,
        path: Path,
        most_bytes: int,
        header: Header,
        log: structlog.typing.FilteringBoundLogger,
        most_waiting: int = _WAITING,
    ) -> None:
        self.dropped = 0
        """Entries that were thrown away."""
        self.capture: Callable[[], Any] | None = None
        """Gives the whole state just now; set before the first file is full."""
        self._path = path
        self._half_bytes = most_bytes // 2
        self._header = header_to_line(header)
        self._log = log
        self._most_waiting = most_waiting
        self._entries: list[Entry] = []
        self._is_broken = False
        self._is_off = False
        self._written = 0
        self._lines = 0
        self._file = self._begin()

    @property
    def waiting(self) -> int:
        return len(self._entries)

    def note(self, entry: Entry) -> None:
        """Never blocks."""
        if self._is_off:
            return
        if self._is_broken:
            self.dropped += 1
        elif len(self._entries) >= self._most_waiting:
            self.dropped += len(self._entries) + 1
            self._entries = []
            self._is_broken = True  # what follows makes no sense without what was thrown away: until the next whole state
        else:
            self._entries.append(entry)

    async def run(self) -> None:
        try:
            while True:
                await anyio.sleep(_EVERY_S)
                await self.write()
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(_LAST_S):
                await self.write()
            self.close()

    def close(self) -> None:
        self._is_off = True
        self._file.close()

    async def write(self) -> None:
        """Everything that waits; then a new file, where the present one is full."""
        entries, self._entries = self._entries, []
        is_full = self._is_broken or self._written >= self._half_bytes
        state = None
        try:
            if is_full and self.capture is not None and not self._is_off:
                # Between two steps of the event loop: the entries end exactly where the state begins.
                state = self.capture()
                self._is_broken = False
            if entries or state is not None:
                with anyio.CancelScope(shield=True):  # what was taken must be stored: a hole cannot be replayed
                    await anyio.to_thread.run_sync(self._store, entries, state)
        except (OSError, TypeError, ValueError) as error:  # the disk, or a value that has no form in a journal
            self._is_off = True
            self._log.error("the journal has stopped", file=str(self._path), cause=str(error))

    def _store(self, entries: list[Entry], state: Any) -> None:
        """In a thread of its own: encoding takes longer than writing."""
        self._put("".join(self._line(entry) for entry in entries))
        if state is not None:
            checkpoint = Checkpoint(to_json(state))
            self._file.close()
            self._file = self._begin()
            self._put(self._line(checkpoint))

    def _line(self, entry: Entry) -> str:
        self._lines += 1
        return entry_to_line(entry, self._lines)

    def _begin(self) -> TextIO:
        if self._path.exists():
            self._path.replace(self._path.with_name(self._path.name + ".1"))
        file = open(self._path, "w", encoding="utf-8", opener=_private)  # noqa: SIM115  # closed by run
        self._file = file
        self._written = 0
        self._lines = 1
        self._put(self._header)
        return file

    def _put(self, text: str) -> None:
        self._file.write(text)
        self._file.flush()
        self._written += len(text)


def _private(path: str, flags: int) -> int:
    """Session ids are nobody else's business."""
    return os.open(path, flags, 0o600)
