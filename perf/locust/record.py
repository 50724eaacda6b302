"""What came of one session, as its caller saw it: one JSON line each."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Self

__all__ = ["Outcome", "SessionRecord"]


class Outcome(StrEnum):
    GOODBYE = "goodbye"
    """Ended by the caller, orderly."""
    DISCONNECTED = "disconnected"
    """Cut by the caller, as planned."""
    REFUSED = "refused"
    """No place was given."""
    DROPPED = "dropped"
    """It ended, or could not begin after a place was given, and the caller had not wanted that."""


@dataclass(slots=True)
class SessionRecord:
    """Times are nanoseconds of the machine's monotonic clock, which all its processes share; 0: did not happen.

    Attributes:
        asked_ns: the caller asked for a place. started_ns: the session answered. ended_ns: the caller was done with it.
        listened_s: audio sent, silence included. spoken_s: of it, speech. replied_s: audio received.
        first_audio_ms: of each answer that was waited for, from the last spoken frame to the first sound.
        detail: the refusal's code, or what broke.
    """

    number: int
    wire: str
    is_idle: bool
    asked_ns: int
    started_ns: int = 0
    ended_ns: int = 0
    session_id: str = ""
    runtime_id: str = ""
    outcome: Outcome = Outcome.GOODBYE
    detail: str = ""
    listened_s: float = 0.0
    spoken_s: float = 0.0
    replied_s: float = 0.0
    spurts: int = 0
    replies: int = 0
    barge_ins: int = 0
    cancels: int = 0
    unanswered: int = 0
    first_audio_ms: list[float] = field(default_factory=list)

    @property
    def startup_ms(self) -> float | None:
        """From asking to the session's first answer; None where there was none."""
        return (self.started_ns - self.asked_ns) / 1e6 if self.started_ns else None

    @property
    def length_s(self) -> float:
        return max(0, self.ended_ns - self.asked_ns) / 1e9

    def to_line(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_line(cls, line: str) -> Self:
        """Raises ValueError or TypeError for what `to_line` did not write."""
        values = json.loads(line)
        return cls(**{**values, "outcome": Outcome(values["outcome"])})
