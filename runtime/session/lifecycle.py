"""The life of a leg as one table. Code looks transitions up; nothing else decides them.

reserved --attach--> attached --start--> active --end | move_out--> ended
reserved --release | expire--> ended
attached --end | expire--> ended          (it never spoke: no session was counted)
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

__all__ = ["TRANSITIONS", "LegInput", "LegState", "next_state"]


class LegState(StrEnum):
    RESERVED = "reserved"
    """A place is held for a caller that is on its way. Short lease."""
    ATTACHED = "attached"
    """The handshake is complete, no valid message yet. Short lease."""
    ACTIVE = "active"
    """A real session. The only state that is counted as one."""
    ENDED = "ended"


class LegInput(StrEnum):
    ATTACH = "attach"
    START = "start"
    END = "end"
    MOVE_OUT = "move_out"
    RELEASE = "release"
    EXPIRE = "expire"


TRANSITIONS: Final[Mapping[tuple[LegState, LegInput], LegState]] = MappingProxyType(
    {
        (LegState.RESERVED, LegInput.ATTACH): LegState.ATTACHED,
        (LegState.RESERVED, LegInput.RELEASE): LegState.ENDED,
        (LegState.RESERVED, LegInput.EXPIRE): LegState.ENDED,
        (LegState.ATTACHED, LegInput.START): LegState.ACTIVE,
        (LegState.ATTACHED, LegInput.END): LegState.ENDED,
        (LegState.ATTACHED, LegInput.EXPIRE): LegState.ENDED,
        (LegState.ACTIVE, LegInput.END): LegState.ENDED,
        (LegState.ACTIVE, LegInput.MOVE_OUT): LegState.ENDED,
    }
)


def next_state(state: LegState, given: LegInput) -> LegState | None:
    """The state that follows, or None where the input does not apply and must change nothing."""
    return TRANSITIONS.get((state, given))
