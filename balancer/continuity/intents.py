"""Which tools a session has begun, so that none with an effect runs twice, however often its turn is tried on whichever runtime.

An intent is named by key, tool and arguments together: a turn that is tried again and comes to other arguments is another intent,
and the first one stays known. Kept where the caller's connection is, for as long as the call lasts.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

__all__ = ["IntentAnswer", "IntentName", "IntentState", "Intents"]

_MOST_INTENTS: Final = 1024
_MOST_BYTES: Final = 2 * 1024 * 1024


class IntentState(StrEnum):
    RECORDED = "recorded"
    FRESH = "fresh"
    FINISHED = "finished"
    UNKNOWN = "unknown"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class IntentName:
    key: str
    tool: str
    arguments_json: str


@dataclass(frozen=True, slots=True)
class IntentAnswer:
    """`result_json` and `is_error` with FINISHED."""

    state: IntentState
    result_json: str = ""
    is_error: bool = False


class Intents:
    """One session's. Bounded: what does not fit is refused, since forgetting an old one could let it run again."""

    __slots__ = ("_known", "_newest_epoch", "size_bytes")

    def __init__(self) -> None:
        self._known: dict[IntentName, IntentAnswer | None] = {}
        """The outcome; None: begun."""
        self._newest_epoch = 0
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._known)

    def begin(self, epoch: int, name: IntentName) -> IntentAnswer:
        """FRESH to the first who asks; from then on what became of it. An older leg than the newest that asked is refused."""
        if epoch < self._newest_epoch:
            return IntentAnswer(IntentState.REFUSED)
        self._newest_epoch = epoch
        if name in self._known:
            return self._known[name] or IntentAnswer(IntentState.UNKNOWN)
        size_bytes = sum(len(each.encode()) for each in (name.key, name.tool, name.arguments_json))
        if len(self._known) >= _MOST_INTENTS or self.size_bytes + size_bytes > _MOST_BYTES:
            return IntentAnswer(IntentState.REFUSED)
        self._known[name] = None
        self.size_bytes += size_bytes
        return IntentAnswer(IntentState.FRESH)

    def finish(self, epoch: int, name: IntentName, result_json: str, is_error: bool) -> IntentAnswer:
        """RECORDED, also again with the same outcome; REFUSED where it was not begun, is known with another outcome, an older leg
        says so, or there is no room: then it stays unknown."""
        if epoch < self._newest_epoch or name not in self._known:
            return IntentAnswer(IntentState.REFUSED)
        outcome = IntentAnswer(IntentState.FINISHED, result_json, is_error)
        known = self._known[name]
        if known is not None:
            return IntentAnswer(IntentState.RECORDED if known == outcome else IntentState.REFUSED)
        size_bytes = len(result_json.encode())
        if self.size_bytes + size_bytes > _MOST_BYTES:
            return IntentAnswer(IntentState.REFUSED)
        self._known[name] = outcome
        self.size_bytes += size_bytes
        return IntentAnswer(IntentState.RECORDED)
