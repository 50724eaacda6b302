"""Replies that are due: to a turn of the caller's, or because the client asked for one. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from runtime.dialogue.agent import TurnCause
from runtime.dialogue.caller_events import RequestReply

__all__ = ["Wish", "joined"]


@dataclass(frozen=True, slots=True)
class Wish:
    """A reply that is wanted and has not begun.

    Attributes:
        request: how it is wanted.
        cause: why, where the turn that it answers has no words of its own.
        is_asked: the client asked for it: it is given, or refused, whatever the caller said.
        has_words: something that was said, typed or keyed before waits for it.
    """

    request: RequestReply = field(default_factory=RequestReply)
    cause: TurnCause = TurnCause.SPOKEN
    is_asked: bool = False
    has_words: bool = False

    @property
    def is_due(self) -> bool:
        """Whether it is given even where nothing more is said."""
        return self.is_asked or self.has_words


def joined(earlier: Wish | None, later: Wish | None) -> Wish | None:
    """One reply to both: as the client asked for it, where it asked for one of them.

    >>> joined(Wish(is_asked=True), Wish(has_words=True)) == Wish(is_asked=True, has_words=True)
    True
    """
    if earlier is None or later is None:
        return earlier or later
    first = later if later.is_asked or not earlier.is_due else earlier
    return replace(first, is_asked=earlier.is_asked or later.is_asked, has_words=earlier.has_words or later.has_words)
