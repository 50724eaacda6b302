"""Whose turn it is, as one table: (floor, what happened) -> (floor, what to do). Code looks it up; nothing else decides.

    listening --speech--> hearing --pause--> deciding --silence--> transcribing --words--> thinking --first audio--> speaking
        ^                    ^------voice------'                                                                       |    |
        '-----------------------------------------finished-------------------------------------------------------------'    |
                          hearing <--proven-- interrupted <--speech----------------------------------------------------------'
                                                  '--disproven--> speaking

    thinking --speech--> doubting --proven--> hearing
                             '--disproven--> thinking

Legend of the actions: LISTEN_AHEAD (the words so far are wanted, though the turn may go on); KEEP_LISTENING (they are not the
whole turn: drop them); TRANSCRIBE the utterance, or take the words that are there already; REPLY to the turn; WITHDRAW an early
commit (join its audio with what follows); RETRACT (the same, and the reply to it counts as never given); HOLD the output, keeping
all of it; DELAY the first audio of a reply that goes on being made; RESUME what was held or delayed where it stopped; BARGE_IN
(stop the reply, flush, keep only what was heard); CANCEL (the same, on the client's wish); REFUSE (answer with an error: a reply
is running); NOTHING_TO_CANCEL (answer with an error). Missing pairs change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

__all__ = ["REPLYING", "TURN_TABLE", "UNPROVEN", "Action", "Floor", "Happening", "next_turn"]


class Floor(StrEnum):
    LISTENING = "listening"
    HEARING = "hearing"
    """The caller speaks."""
    DECIDING = "deciding"
    """The caller has paused; it is open whether the turn is over."""
    TRANSCRIBING = "transcribing"
    """The turn is taken to be over; its words are on their way."""
    THINKING = "thinking"
    """A reply is being made; nothing of it was heard yet."""
    DOUBTING = "doubting"
    """The caller speaks while the reply is being made: its first audio waits until that proves to be more than a backchannel."""
    SPEAKING = "speaking"
    INTERRUPTED = "interrupted"
    """The caller speaks over the reply, which is held until that proves to be more than a backchannel."""


UNPROVEN: Final = frozenset({Floor.DOUBTING, Floor.INTERRUPTED})
"""The caller speaks beside a reply, and it is open whether that is to stop it."""
REPLYING: Final = frozenset({Floor.THINKING, Floor.SPEAKING, *UNPROVEN})
"""A reply runs."""


class Happening(StrEnum):
    SPEECH = "speech"
    """The caller began to speak."""
    GOES_ON = "goes_on"
    """The caller began to speak so early in the reply that the turn it answers was not over."""
    PAUSE = "pause"
    """The caller is silent for long enough that the words so far are worth having."""
    VOICE = "voice"
    """The caller goes on after a pause, within the same turn."""
    SILENCE = "silence"
    """The caller's turn is over: silence, a commit, or the end of input."""
    WORDS = "words"
    """The transcript is there and a reply is wanted."""
    NO_WORDS = "no_words"
    """Nothing was said, or no reply is wanted."""
    PROVEN = "proven"
    """What was said over the reply is an interruption."""
    DISPROVEN = "disproven"
    """It was a backchannel or noise."""
    REQUEST = "request"
    """The client asks for a reply, or one is due."""
    KEYS = "keys"
    """An entry was made on the caller's telephone."""
    FIRST_AUDIO = "first_audio"
    FINISHED = "finished"
    """The reply is complete, or has failed."""
    INTERRUPT = "interrupt"
    """The client asks for the reply to stop."""


class Action(StrEnum):
    NONE = "none"
    LISTEN_AHEAD = "listen_ahead"
    KEEP_LISTENING = "keep_listening"
    TRANSCRIBE = "transcribe"
    REPLY = "reply"
    WITHDRAW = "withdraw"
    RETRACT = "retract"
    HOLD = "hold"
    DELAY = "delay"
    RESUME = "resume"
    BARGE_IN = "barge_in"
    CANCEL = "cancel"
    REFUSE = "refuse"
    NOTHING_TO_CANCEL = "nothing_to_cancel"


_L, _H, _D, _T = Floor.LISTENING, Floor.HEARING, Floor.DECIDING, Floor.TRANSCRIBING
_K, _B, _S, _I = Floor.THINKING, Floor.DOUBTING, Floor.SPEAKING, Floor.INTERRUPTED

TURN_TABLE: Final[Mapping[tuple[Floor, Happening], tuple[Floor, Action]]] = MappingProxyType(
    {
        (_L, Happening.SPEECH): (_H, Action.NONE),
        (_L, Happening.SILENCE): (_T, Action.TRANSCRIBE),
        (_L, Happening.REQUEST): (_K, Action.REPLY),
        (_L, Happening.INTERRUPT): (_L, Action.NOTHING_TO_CANCEL),
        (_H, Happening.PAUSE): (_D, Action.LISTEN_AHEAD),
        (_H, Happening.SILENCE): (_T, Action.TRANSCRIBE),
        (_H, Happening.NO_WORDS): (_L, Action.NONE),
        (_H, Happening.REQUEST): (_H, Action.REFUSE),
        (_H, Happening.INTERRUPT): (_H, Action.NOTHING_TO_CANCEL),
        (_D, Happening.SPEECH): (_H, Action.KEEP_LISTENING),
        (_D, Happening.VOICE): (_H, Action.KEEP_LISTENING),
        (_D, Happening.SILENCE): (_T, Action.TRANSCRIBE),
        (_D, Happening.NO_WORDS): (_L, Action.KEEP_LISTENING),
        (_D, Happening.REQUEST): (_D, Action.REFUSE),
        (_D, Happening.INTERRUPT): (_D, Action.NOTHING_TO_CANCEL),
        (_T, Happening.SPEECH): (_H, Action.WITHDRAW),
        (_T, Happening.WORDS): (_K, Action.REPLY),
        (_T, Happening.NO_WORDS): (_L, Action.NONE),
        (_T, Happening.REQUEST): (_T, Action.REFUSE),
        (_T, Happening.INTERRUPT): (_T, Action.NOTHING_TO_CANCEL),
        (_K, Happening.SPEECH): (_B, Action.DELAY),
        (_K, Happening.GOES_ON): (_H, Action.RETRACT),
        (_K, Happening.SILENCE): (_T, Action.BARGE_IN),
        (_K, Happening.FIRST_AUDIO): (_S, Action.NONE),
        (_K, Happening.FINISHED): (_L, Action.NONE),
        (_K, Happening.REQUEST): (_K, Action.REFUSE),
        (_K, Happening.INTERRUPT): (_L, Action.CANCEL),
        (_K, Happening.KEYS): (_L, Action.BARGE_IN),
        (_B, Happening.PAUSE): (_B, Action.LISTEN_AHEAD),
        (_B, Happening.VOICE): (_B, Action.KEEP_LISTENING),
        (_B, Happening.PROVEN): (_H, Action.BARGE_IN),
        (_B, Happening.DISPROVEN): (_K, Action.RESUME),
        (_B, Happening.SILENCE): (_B, Action.LISTEN_AHEAD),
        (_B, Happening.NO_WORDS): (_K, Action.RESUME),
        # A reply of text alone is told whole meanwhile.
        (_B, Happening.FINISHED): (_H, Action.NONE),
        (_B, Happening.REQUEST): (_B, Action.REFUSE),
        (_B, Happening.INTERRUPT): (_H, Action.CANCEL),
        (_B, Happening.KEYS): (_H, Action.BARGE_IN),
        (_S, Happening.SPEECH): (_I, Action.HOLD),
        (_S, Happening.GOES_ON): (_H, Action.RETRACT),
        (_S, Happening.SILENCE): (_T, Action.BARGE_IN),
        (_S, Happening.FINISHED): (_L, Action.NONE),
        (_S, Happening.REQUEST): (_S, Action.REFUSE),
        (_S, Happening.INTERRUPT): (_L, Action.CANCEL),
        (_S, Happening.KEYS): (_L, Action.BARGE_IN),
        (_I, Happening.PAUSE): (_I, Action.LISTEN_AHEAD),
        (_I, Happening.VOICE): (_I, Action.KEEP_LISTENING),
        (_I, Happening.PROVEN): (_H, Action.BARGE_IN),
        (_I, Happening.DISPROVEN): (_S, Action.RESUME),
        # The turn can end before its words are there (a commit, a short silence): they decide, not the clock.
        (_I, Happening.SILENCE): (_I, Action.LISTEN_AHEAD),
        (_I, Happening.NO_WORDS): (_S, Action.RESUME),
        # All of the reply had left before it was held: nothing is left to interrupt, so the caller is simply heard.
        (_I, Happening.FINISHED): (_H, Action.NONE),
        (_I, Happening.REQUEST): (_I, Action.REFUSE),
        (_I, Happening.INTERRUPT): (_H, Action.CANCEL),
        (_I, Happening.KEYS): (_H, Action.BARGE_IN),
    }
)


def next_turn(floor: Floor, happening: Happening) -> tuple[Floor, Action]:
    """The floor that follows and what to do; where nothing is written, the floor stays and nothing is done."""
    return TURN_TABLE.get((floor, happening), (floor, Action.NONE))
