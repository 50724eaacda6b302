"""What is remembered of a tool's run, so that its effect happens once however often its turn is tried."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from runtime.primitives.errors import Fault, VoiceError

__all__ = ["Intent", "IntentOutcome", "IntentRecord", "IntentState", "StaleEpoch"]


@dataclass(frozen=True, slots=True)
class Intent:
    """A tool is about to run.

    Attributes:
        session_id, epoch: whose, and in which leg of it.
        key: the idempotency key, `session:beginning:turn:n`: the n-th tool of a turn, wherever and whenever it is tried.
        tool: its name.
        arguments_json: what it is asked to do. The same key with other arguments is another intent, and replaces the first.
    """

    session_id: str
    epoch: int
    key: str
    tool: str
    arguments_json: str


class IntentState(StrEnum):
    FRESH = "fresh"
    """Nobody has begun it: run it."""
    FINISHED = "finished"
    """It ran, and its outcome is known: use that."""
    UNKNOWN = "unknown"
    """It was begun and its outcome was not recorded: it may have had its effect."""


@dataclass(frozen=True, slots=True)
class IntentOutcome:
    """`result_json`: a JSON value; where `is_error`, the failure's text as a JSON string."""

    result_json: str
    is_error: bool


@dataclass(frozen=True, slots=True)
class IntentRecord:
    """The answer to a beginning. `outcome` is there where `state` is FINISHED."""

    state: IntentState
    outcome: IntentOutcome | None = None


class StaleEpoch(VoiceError):
    """A newer leg of the session has begun: this one may neither act nor record. Its call is about to end."""

    code = "stale_epoch"
    fault = Fault.ENVIRONMENT

    def __init__(self, epoch: int, newest: int) -> None:
        self.epoch = epoch
        self.newest = newest
        super().__init__(f"epoch is {epoch}, and {newest} has begun already")
