"""Turns that were taken to be over and are on their way to words, in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from runtime.conversation.transcripts import Transcript
from runtime.conversation.turn_clock import TurnClock
from runtime.dialogue.caller_events import RequestReply

__all__ = ["Commit", "Commits"]


@dataclass(slots=True)
class Commit:
    """`wish`: the reply that is wanted to it; None: none."""

    transcript: Transcript
    item_id: str
    previous_item_id: str
    clock: TurnClock
    wish: RequestReply | None


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

    def take(self, transcript: Transcript) -> Commit:
        """The commit whose words these are; it is no longer open."""
        (commit,) = [commit for commit in self._open if commit.transcript is transcript]
        self._open.remove(commit)
        return commit

    def withdraw(self) -> Commit:
        """The last one was no turn of its own: what is on its way for it is dropped."""
        commit = self._open.pop()
        commit.transcript.scope.cancel()
        return commit
