"""Turns that were taken to be over and are on their way to words, in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from runtime.conversation.transcripts import Transcript
from runtime.conversation.turn_clock import TurnClock
from runtime.dialogue.wishes import Wish

__all__ = ["Commit", "Commits"]


@dataclass(slots=True)
class Commit:
    """`wish`: the reply that is wanted to it; None: none."""

    transcript: Transcript
    item_id: str
    previous_item_id: str
    clock: TurnClock
    wish: Wish | None


class Commits:
    def __init__(self) -> None:
        self._open: list[Commit] = []

    def __bool__(self) -> bool:
        return bool(self._open)

    def __iter__(self) -> Iterator[Commit]:
        return iter(self._open)

    @property
    def last(self) -> Commit:
        return self._open[-1]

    def add(self, commit: Commit) -> None:
        self._open.append(commit)

    def take_done(self) -> Commit | None:
        """The oldest, once its words are there; it is no longer open. Words that come early wait for those before them."""
        return self._open.pop(0) if self._open and self._open[0].transcript.is_done else None

    def withdraw(self) -> Commit:
        """The last one was no turn of its own: what is on its way for it is dropped."""
        commit = self._open.pop()
        commit.transcript.scope.cancel()
        return commit
