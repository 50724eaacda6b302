"""What a caller needs of the runtime that will serve it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from balancer.routing.version import Version

__all__ = ["PlacementRequest", "Priority"]


class Priority(StrEnum):
    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """One leg that wants a place. Empty or zero means: does not matter."""

    session_id: str
    epoch: int = 1
    agent: str = ""
    abilities: frozenset[str] = frozenset()
    region: str = ""
    """A preference: other regions serve when this one has no room."""
    min_version: Version = ()
    context_window: int = 0
    """Tokens."""
    priority: Priority = Priority.NORMAL
    tenant: str = ""
    """Whose session it is."""
    avoid: frozenset[str] = frozenset()
    """Runtimes that failed this very placement after they had admitted it, or that the session leaves."""
    only_runtime: str = ""
    """Where a live reservation of the same leg already is: asking again must not take a second place."""
    is_resume: bool = False
    """The session is still alive elsewhere and wants its next leg: it is let in however full the fleet is."""
    is_adoption: bool = False
    """The session's caller is connected and its runtime is gone, or is to be left: it skips what new sessions are held back by
    (hard limit, overload, headroom, inflow); a runtime has room beyond its limit for such."""
