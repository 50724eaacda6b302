"""How a call gets from one runtime to another, as a table: (state, input) to the next state and what to do.

    serving        one runtime serves
    seeking        it serves on, while a place elsewhere is looked for: a planned move
    handing_over   the target is connected, the source was asked for its state
    restoring      the target has the state and the caller's messages; source speaks on until the target is ready
    suspected      the source has said nothing for too long; a place elsewhere is looked for, and nothing is cut yet
    orphaned       no runtime is there: the caller's messages are kept, a place is looked for
    ended          the call is over, or ends

The deadline of a planned move is one for all its states. Whatever fails before the cut leaves the call where it is. Wherever the
target is connected already when the source goes, it takes over at once with what it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

__all__ = ["MOVE_TABLE", "MoveEffect", "MoveInput", "MoveState", "Step", "step"]


class MoveState(StrEnum):
    SERVING = "serving"
    SEEKING = "seeking"
    HANDING_OVER = "handing_over"
    RESTORING = "restoring"
    SUSPECTED = "suspected"
    ORPHANED = "orphaned"
    ENDED = "ended"


class MoveInput(StrEnum):
    WANTED = "wanted"
    """A planned move."""
    SILENT = "silent"
    """The serving runtime has not been heard for too long."""
    HEARD = "heard"
    """It was silent and is heard again."""
    LOST = "lost"
    """The serving runtime is gone without the session's end."""
    ARRIVED = "arrived"
    """A runtime with a place for the call is connected."""
    NOT_FOUND = "not_found"
    """Nobody had a place within the bound."""
    STATE_CAME = "state_came"
    """The checkpoint that answers our request."""
    STATE_USELESS = "state_useless"
    """It came, and of the caller's messages since more are gone than it can do without."""
    READY = "ready"
    """The target has the session back and audio ready."""
    TARGET_FAILED = "target_failed"
    """The target refused, is gone, or broke the protocol before the cut."""
    LATE = "late"
    """The deadline of the planned move has passed."""
    OVER = "over"
    """The session or the call ends."""


class MoveEffect(StrEnum):
    SEEK = "seek"
    """Look for a place elsewhere and connect."""
    STOP_SEEKING = "stop_seeking"
    HOLD = "hold"
    """The caller's messages are kept for whoever comes."""
    ASK_FOR_STATE = "ask_for_state"
    """HandOver to the source."""
    RESTORE = "restore"
    """Restore to the target, and the caller's messages, now and from now on."""
    STAY = "stay"
    """The source goes on as if nothing had been."""
    DROP_TARGET = "drop_target"
    RELEASE_SOURCE = "release_source"
    """MovedOut to the source; nothing more of it is forwarded."""
    CUT_SOURCE = "cut_source"
    """The source's connection is aborted; nothing more of it is forwarded."""
    GO_ON = "go_on"
    """GoOn to the target, which serves from here."""
    MOVED = "moved"
    """Count it."""
    FAILED = "failed"
    """Count it: the call stays where it is."""
    GIVE_UP = "give_up"
    """Nobody adopts the call: its caller is told."""


@dataclass(frozen=True, slots=True)
class Step:
    state: MoveState
    effects: tuple[MoveEffect, ...] = ()


_S, _I, _E = MoveState, MoveInput, MoveEffect
_BACK: Final = Step(_S.SERVING, (_E.STAY, _E.DROP_TARGET, _E.FAILED))
_STOP: Final = Step(_S.SERVING, (_E.STOP_SEEKING, _E.FAILED))
_UNFOUND: Final = Step(_S.SERVING, (_E.FAILED,))

MOVE_TABLE: Final[Mapping[tuple[MoveState, MoveInput], Step]] = MappingProxyType({
    (_S.SERVING, _I.WANTED): Step(_S.SEEKING, (_E.SEEK,)),
    (_S.SERVING, _I.SILENT): Step(_S.SUSPECTED, (_E.SEEK,)),
    (_S.SERVING, _I.LOST): Step(_S.ORPHANED, (_E.HOLD, _E.SEEK)),
    (_S.SERVING, _I.OVER): Step(_S.ENDED),

    (_S.SEEKING, _I.SILENT): Step(_S.SUSPECTED, (_E.STOP_SEEKING, _E.SEEK)),
    (_S.SEEKING, _I.LOST): Step(_S.ORPHANED, (_E.HOLD, _E.STOP_SEEKING, _E.SEEK)),
    (_S.SEEKING, _I.ARRIVED): Step(_S.HANDING_OVER, (_E.ASK_FOR_STATE,)),
    (_S.SEEKING, _I.NOT_FOUND): _UNFOUND,
    (_S.SEEKING, _I.LATE): _STOP,
    (_S.SEEKING, _I.OVER): Step(_S.ENDED, (_E.STOP_SEEKING,)),

    (_S.HANDING_OVER, _I.SILENT): Step(_S.SERVING, (_E.CUT_SOURCE, _E.RESTORE, _E.GO_ON, _E.MOVED)),
    (_S.HANDING_OVER, _I.LOST): Step(_S.SERVING, (_E.RESTORE, _E.GO_ON, _E.MOVED)),
    (_S.HANDING_OVER, _I.STATE_CAME): Step(_S.RESTORING, (_E.RESTORE,)),
    (_S.HANDING_OVER, _I.STATE_USELESS): _BACK,
    (_S.HANDING_OVER, _I.TARGET_FAILED): _BACK,
    (_S.HANDING_OVER, _I.LATE): _BACK,
    (_S.HANDING_OVER, _I.OVER): Step(_S.ENDED, (_E.DROP_TARGET,)),

    (_S.RESTORING, _I.SILENT): Step(_S.SERVING, (_E.CUT_SOURCE, _E.GO_ON, _E.MOVED)),
    (_S.RESTORING, _I.LOST): Step(_S.SERVING, (_E.GO_ON, _E.MOVED)),
    (_S.RESTORING, _I.READY): Step(_S.SERVING, (_E.RELEASE_SOURCE, _E.GO_ON, _E.MOVED)),
    (_S.RESTORING, _I.TARGET_FAILED): _BACK,
    (_S.RESTORING, _I.LATE): _BACK,
    (_S.RESTORING, _I.OVER): Step(_S.ENDED, (_E.DROP_TARGET,)),

    (_S.SUSPECTED, _I.HEARD): _STOP,
    (_S.SUSPECTED, _I.LOST): Step(_S.ORPHANED, (_E.HOLD,)),
    (_S.SUSPECTED, _I.ARRIVED): Step(_S.SERVING, (_E.CUT_SOURCE, _E.RESTORE, _E.GO_ON, _E.MOVED)),
    (_S.SUSPECTED, _I.NOT_FOUND): _UNFOUND,
    (_S.SUSPECTED, _I.OVER): Step(_S.ENDED, (_E.STOP_SEEKING,)),

    (_S.ORPHANED, _I.ARRIVED): Step(_S.SERVING, (_E.RESTORE, _E.GO_ON, _E.MOVED)),
    (_S.ORPHANED, _I.NOT_FOUND): Step(_S.ENDED, (_E.GIVE_UP,)),
    (_S.ORPHANED, _I.OVER): Step(_S.ENDED, (_E.STOP_SEEKING,)),
})  # fmt: skip
"""What is not in it changes nothing."""


def step(state: MoveState, happened: MoveInput) -> Step:
    return MOVE_TABLE.get((state, happened)) or Step(state)
