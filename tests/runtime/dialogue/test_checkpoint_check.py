"""What no conversation could have written is refused, by name, before anything runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from runtime.dialogue.agent import TurnCause
from runtime.dialogue.caller_events import RequestReply
from runtime.dialogue.checkpoint import (
    CHECKPOINT_VERSION,
    Checkpoint,
    CommitState,
    EarState,
    EndpointerState,
    OnsetState,
    ReplyState,
    TurnsState,
    UtteranceState,
)
from runtime.dialogue.checkpoint_check import BadCheckpoint, check_checkpoint
from runtime.dialogue.session_settings import SessionSettings
from runtime.dialogue.turn_table import REPLYING, Floor

_HEARD = UtteranceState(((10, 40),), 1_280, 1_200, 80)
_POINTER = EndpointerState(50, 0, False, False, 40, 20, 40, 1.0, (0.1, 0.2), (0.0, 0.0, 0, 0.0))
_EAR = EarState(45, 50, 100, 0.1, 300, (), _POINTER)
_REPLY = ReplyState(
    2, "i2", "i1", "Hi", True, (), "", True, 5, 80, True, TurnCause.SPOKEN, 0, True, RequestReply(), {}, (1, 1), False, False,
    False, "", None,
)  # fmt: skip
_TURNS = TurnsState(Floor.SPEAKING, (), {}, (2, "i2", ""), 2, 2, _EAR, (), _REPLY, None, None, None, (0, 0))
_GOOD = Checkpoint(CHECKPOINT_VERSION, "s", 1, 90, 60, 0, 10, SessionSettings("a"), _TURNS, 5_000, 20)
_COMMIT = CommitState(_HEARD, "i1", "", 50, None)


def _turns(**fields: Any) -> Checkpoint:
    return replace(_GOOD, turns=replace(_TURNS, **fields))


def _ear(**fields: Any) -> Checkpoint:
    return _turns(ear=replace(_EAR, **fields))


def _pointer(**fields: Any) -> Checkpoint:
    return _ear(endpointer=replace(_POINTER, **fields))


def _reply(**fields: Any) -> Checkpoint:
    return _turns(reply=replace(_REPLY, **fields))


def test_what_a_conversation_writes_is_taken() -> None:
    check_checkpoint(_GOOD)
    check_checkpoint(_turns(floor=Floor.TRANSCRIBING, reply=None, commits=(_COMMIT,), last_reply=_REPLY))
    check_checkpoint(_turns(floor=Floor.INTERRUPTED, held_turn=_HEARD, onset=OnsetState(300, 11, 60)))


@pytest.mark.parametrize("floor", Floor)
def test_a_reply_runs_exactly_where_the_floor_is_the_agent_s(floor: Floor) -> None:
    bad = _turns(floor=floor, reply=None if floor in REPLYING else _REPLY, commits=(_COMMIT,))
    with pytest.raises(BadCheckpoint, match=r"turns\.reply"):
        check_checkpoint(bad)


@pytest.mark.parametrize(
    ("bad", "where"),
    [
        (replace(_GOOD, applied=-1), "applied"),
        (replace(_GOOD, audio_from=99), "audio_from"),
        (replace(_GOOD, base_frame=60), "base_frame"),
        (replace(_GOOD, skip_samples=10**9), "skip_samples"),
        (replace(_GOOD, idle_ms=-1), "idle_ms"),
        (_turns(generation=-1), "turns.generation"),
        (_turns(generation=3), "turns.reply.generation"),
        (_turns(silent_caller=(-1, 0)), "turns.silent_caller"),
        (_turns(floor=Floor.TRANSCRIBING, reply=None), "turns.commits"),
        (_turns(held_turn=_HEARD), "turns.held_turn"),
        (_turns(hangs_up=True), "turns.hangs_up"),
        (_turns(onset=OnsetState(0, 51, 0)), "turns.onset.frame"),
        (_turns(commits=(replace(_COMMIT, utterance=replace(_HEARD, spans=((5, 40),))),)), "turns.commits[0].utterance.spans"),
        (_turns(commits=(replace(_COMMIT, utterance=replace(_HEARD, spans=((40, 20),))),)), "turns.commits[0].utterance.spans"),
        (_turns(commits=(replace(_COMMIT, decided_age_ms=-1),)), "turns.commits[0].decided_age_ms"),
        (_ear(first_frame=52), "turns.ear.first_frame"),
        (_ear(first_frame=-1), "turns.ear.first_frame"),
        (_ear(rest_samples=512), "turns.ear.rest_samples"),
        (_ear(belief=1e300), "turns.ear.belief"),
        (_ear(earlier=((0, 60),)), "turns.ear.earlier"),
        (_pointer(frame=51), "turns.ear.endpointer.frame"),
        (_pointer(last_voiced=60), "turns.ear.endpointer.last_voiced"),
        (_pointer(factor=0.0), "turns.ear.endpointer.factor"),
        (_pointer(beliefs=(2.0,)), "turns.ear.endpointer.beliefs"),
        (_pointer(pauses=(float("inf"), 0.0, 0, 0.0)), "turns.ear.endpointer.pauses"),
        (_reply(sent_frames=-1), "turns.reply.sent_frames"),
        (_reply(heard_ms=101), "turns.reply.heard_ms"),
        (_reply(tools_told=(1, 2)), "turns.reply.tools_told"),
        (_reply(said_before=1), "turns.reply.said_before"),
        (_turns(last_reply=replace(_REPLY, generation=9)), "turns.last_reply.generation"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_contradicts_itself_is_named(bad: Checkpoint, where: str) -> None:
    with pytest.raises(BadCheckpoint) as caught:
        check_checkpoint(bad)
    assert caught.value.problem.startswith(f"{where};")
