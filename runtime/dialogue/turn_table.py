"""Whose turn it is, as one table: (floor, what happened) -> (floor, what to do). Code looks it up; nothing else decides.

    listening --speech--> hearing --silence--> transcribing --words--> thinking --first audio--> speaking --finished--> listening

Legend of the actions: TRANSCRIBE the utterance; REPLY to the turn; WITHDRAW an early commit (stop, and join its audio with
what follows); BARGE_IN (stop the reply, flush, keep only what was heard); CANCEL (the same, on the client's wish); REFUSE
(answer with an error: a reply is running); NOTHING_TO_CANCEL (answer with an error). Missing pairs change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

__all__ = ["TURN_TABLE", "Action", "Floor", "Happening", "next_turn"]


class Floor(StrEnum):
    LISTENING = "listening"
    HEARING = "hearing"
    TRANSCRIBING = "transcribing"
    THINKING = "thinking"
    SPEAKING = "speaking"


class Happening(StrEnum):
    SPEECH = "speech"
    """The caller began to speak."""
    SILENCE = "silence"
    """The caller's turn is over: silence, a commit, or the end of input."""
    WORDS = "words"
    """The transcript is there and a reply is wanted."""
    NO_WORDS = "no_words"
    """Nothing was said, or no reply is wanted."""
    REQUEST = "request"
    """The client asks for a reply."""
    FIRST_AUDIO = "first_audio"
    FINISHED = "finished"
    """The reply is complete, or has failed."""
    INTERRUPT = "interrupt"
    """The client asks for the reply to stop."""


class Action(StrEnum):
    NONE = "none"
    TRANSCRIBE = "transcribe"
    REPLY = "reply"
    WITHDRAW = "withdraw"
    BARGE_IN = "barge_in"
    CANCEL = "cancel"
    REFUSE = "refuse"
    NOTHING_TO_CANCEL = "nothing_to_cancel"


_L, _H, _T, _K, _S = Floor.LISTENING, Floor.HEARING, Floor.TRANSCRIBING, Floor.THINKING, Floor.SPEAKING

TURN_TABLE: Final[Mapping[tuple[Floor, Happening], tuple[Floor, Action]]] = MappingProxyType(
    {
        (_L, Happening.SPEECH): (_H, Action.NONE),
        (_L, Happening.SILENCE): (_T, Action.TRANSCRIBE),
        (_L, Happening.REQUEST): (_K, Action.REPLY),
        (_L, Happening.INTERRUPT): (_L, Action.NOTHING_TO_CANCEL),
        (_H, Happening.SILENCE): (_T, Action.TRANSCRIBE),
        (_H, Happening.NO_WORDS): (_L, Action.NONE),
        (_H, Happening.REQUEST): (_H, Action.REFUSE),
        (_H, Happening.INTERRUPT): (_H, Action.NOTHING_TO_CANCEL),
        (_T, Happening.SPEECH): (_H, Action.WITHDRAW),
        (_T, Happening.WORDS): (_K, Action.REPLY),
        (_T, Happening.NO_WORDS): (_L, Action.NONE),
        (_T, Happening.REQUEST): (_T, Action.REFUSE),
        (_T, Happening.INTERRUPT): (_T, Action.NOTHING_TO_CANCEL),
        (_K, Happening.SPEECH): (_H, Action.BARGE_IN),
        (_K, Happening.SILENCE): (_T, Action.BARGE_IN),
        (_K, Happening.FIRST_AUDIO): (_S, Action.NONE),
        (_K, Happening.FINISHED): (_L, Action.NONE),
        (_K, Happening.REQUEST): (_K, Action.REFUSE),
        (_K, Happening.INTERRUPT): (_L, Action.CANCEL),
        (_S, Happening.SPEECH): (_H, Action.BARGE_IN),
        (_S, Happening.SILENCE): (_T, Action.BARGE_IN),
        (_S, Happening.FINISHED): (_L, Action.NONE),
        (_S, Happening.REQUEST): (_S, Action.REFUSE),
        (_S, Happening.INTERRUPT): (_L, Action.CANCEL),
    }
)


def next_turn(floor: Floor, happening: Happening) -> tuple[Floor, Action]:
    """The floor that follows and what to do; where nothing is written, the floor stays and nothing is done."""
    return TURN_TABLE.get((floor, happening), (floor, Action.NONE))
