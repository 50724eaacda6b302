"""The agent's side where the client wants text alone: nothing is synthesised, nothing is paced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import anyio

from runtime.dialogue.checkpoint import PieceState

__all__ = ["MuteMouth"]


class MuteMouth:
    """Stands where a `Mouth` stands. What was said counts as read at once."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._finished = anyio.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._finished.set()

    @property
    def state(self) -> tuple[tuple[PieceState, ...], int, int]:
        return tuple(PieceState(text, 0, 0) for text in self._text), 0, 0

    def go_on(self, pieces: Sequence[PieceState], _sent_frames: int, _heard_ms: int) -> None:
        """What was said was read."""
        self._text = [piece.text for piece in pieces]

    def stand_by(self) -> None:
        """Text is told by others."""

    async def wait_until_audible(self) -> None:
        """Never."""

    def catch_up(self, _told_frames: int, _silent_ms: int) -> None:
        """Nor is there anything to catch up with."""

    async def say_again(self) -> None:
        """Nothing has to be."""

    async def say(self, *texts: str) -> None:
        self._text += texts

    def finish(self) -> None:
        self._finished.set()

    async def run(self) -> None:
        await self._finished.wait()

    def hold(self) -> None:
        """There is nothing to hold."""

    def resume(self) -> None:
        """Nor to resume."""

    def acknowledge(self, played_ms: int) -> None:
        """Nor was any audio played."""

    def left_s(self) -> float:
        return 0.0

    @property
    def sent_ms(self) -> int:
        return 0

    @property
    def whole_ms(self) -> int:
        return 0

    def heard_ms(self) -> int:
        return 0

    def heard_text(self, _heard_ms: int) -> str:
        return " ".join(self._text)
