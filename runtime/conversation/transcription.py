"""An utterance between the end of its turn and its words."""

from __future__ import annotations

from dataclasses import dataclass

import anyio

from runtime.conversation.ear import Utterance
from runtime.conversation.turn_clock import TurnClock

__all__ = ["Transcription"]


@dataclass(frozen=True, slots=True)
class Transcription:
    """An utterance on its way to words; withdrawn by cancelling its scope."""

    utterance: Utterance
    item_id: str
    clock: TurnClock
    scope: anyio.CancelScope
