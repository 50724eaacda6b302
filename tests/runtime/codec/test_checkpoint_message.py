"""Checkpoints as bytes: whole, bounded, one version either way, and no caller's words in an error."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.codec.checkpoint_message import LONGEST_BYTES, BadCheckpoint, KeptSession, decode_session, encode_session
from runtime.codec.realtime_memory import Truncate
from runtime.dialogue import agent_events as ev
from runtime.dialogue.agent import Role, Said, TurnCause
from runtime.dialogue.caller_events import RequestReply
from runtime.dialogue.checkpoint import (
    AnsweredState,
    Checkpoint,
    CommitState,
    EarState,
    EndpointerState,
    OnsetState,
    PieceState,
    ReplyState,
    TurnsState,
    UtteranceState,
    WaitingEvent,
)
from runtime.dialogue.session_settings import ClientTool, SessionSettings
from runtime.dialogue.turn_table import Floor
from runtime.dialogue.wishes import Wish

_UTTERANCE = UtteranceState(((3, 20), (25, 40)), 1_280, 1_056, 240)
_WISH = Wish(RequestReply("e2"), TurnCause.KEYS, is_asked=True, has_words=True)
_REPLY = ReplyState(
    generation=2,
    item_id="item_0004",
    previous_item_id="item_0003",
    text="Very well. And",
    is_written=False,
    pieces=(PieceState("Very well.", 600, 30), PieceState("Yes,", 0, 0)),
    rest="And",
    is_first_piece=False,
    sent_frames=12,
    heard_ms=100,
    speaks=True,
    cause=TurnCause.SPOKEN,
    silences=0,
    has_words=True,
    wish=RequestReply("e1", instructions="be brief", metadata={"a": "b"}),
    memory={"notes": [1, {"deep": None}]},
    tools_told=(2, 1),
    had_effects=True,
    has_failed=False,
    ends_call=True,
    transfers_to="billing",
    answered=AnsweredState(_UTTERANCE, "item_0003", "item_0002", {}),
    is_sent=True,
    said_before=1,
)
_CHECKPOINT = Checkpoint(
    version=1,
    session_id="s",
    epoch=3,
    applied=120,
    audio_from=80,
    skip_samples=77,
    base_frame=3,
    settings=SessionSettings("desk", metadata={"from": "+1"}, tools=(ClientTool("look_up"),)),
    turns=TurnsState(
        floor=Floor.INTERRUPTED,
        history=(Said(Role.CALLER, "private words", item_id="item_0001"), Said(Role.AGENT, "Yes", is_complete=False)),
        memory={"turns": 1},
        items=(4, "item_0004", ""),
        generation=2,
        turn=2,
        ear=EarState(
            30,
            44,
            100,
            0.25,
            240,
            ((3, 5),),
            EndpointerState(44, 0, True, True, 32, 12, 8, 1.6, (0.1, 0.9), (210.0, 55.5, 4, 0.0)),
        ),
        commits=(CommitState(_UTTERANCE, "item_0003", "item_0002", 12, RequestReply("e2"), _WISH),),
        reply=_REPLY,
        last_reply=None,
        onset=OnsetState(900, 28, 140),
        held_turn=_UTTERANCE,
        silent_caller=(1, 4_000),
        key_stem="s:1f",
        waiting_wish=_WISH,
        partial=("item_0003", "very"),
    ),
    age_ms=60_000,
    idle_ms=20,
    keys="42",
)


_KEPT = KeptSession(_CHECKPOINT, {"events": 12, "session": {"declared": []}}, ("{}", b"\x00\xff"))


def _document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(encode_session(_KEPT)[16:])
    return document


def _bytes(document: dict[str, Any]) -> bytes:
    body = json.dumps(document).encode()
    return hashlib.blake2b(body, digest_size=16).digest() + body


def test_a_session_comes_back_whole() -> None:
    assert decode_session(encode_session(_KEPT)) == _KEPT


_WAITING = [
    ev.SpeechStarted("item_0001", 320),
    ev.ReplyStarted(3, "item_0002", "item_0001", False, {"a": "b"}),
    ev.ReplyText(3, "Très bien."),
    ev.ReplyAudio(3, bytes(range(256))),
    ev.ReplyDone(3, ev.ReplyStatus.COMPLETED, "Très bien.", 20),
    ev.SessionConfigured(SessionSettings("desk")),
    ev.TextAdded("mine", "", "hello", Role.SYSTEM),
    ev.Echoed(Truncate("item_0002", 0, 40)),
]


def test_what_waits_comes_back_in_its_kind() -> None:
    waiting = tuple(WaitingEvent(type(event).__name__, event) for event in _WAITING)
    kept = replace(_KEPT, checkpoint=replace(_CHECKPOINT, waiting=waiting))
    assert decode_session(encode_session(kept)) == kept


@pytest.mark.parametrize("event", [{"kind": "Nothing", "event": {}}, {"kind": "ReplyText", "event": {"generation": "private"}}])
def test_what_waits_is_checked(event: dict[str, Any]) -> None:
    document = _document()
    document["checkpoint"]["waiting"] = [event]
    with pytest.raises(BadCheckpoint, match=r"waiting\[0\]") as caught:
        decode_session(_bytes(document))
    assert "private" not in str(caught.value)


def test_one_version_either_way_is_read_and_what_it_does_not_know_is_ignored() -> None:
    document = _document()
    inner = document["checkpoint"]
    newer = {**document, "checkpoint": {**inner, "version": 2, "mood": "fine", "turns": {**inner["turns"], "more": [1]}}}
    assert decode_session(_bytes(newer)) == replace(_KEPT, checkpoint=replace(_CHECKPOINT, version=2))
    del inner["keys"], inner["waiting"]
    assert decode_session(_bytes(document)) == replace(_KEPT, checkpoint=replace(_CHECKPOINT, keys=""))
    inner["version"] = 3
    with pytest.raises(BadCheckpoint, match=r"version is 3; allowed: 0 to 2"):
        decode_session(_bytes(document))


def test_an_error_names_the_place_and_no_words() -> None:
    document = _document()
    document["checkpoint"]["turns"]["history"][0]["role"] = "private role"
    with pytest.raises(BadCheckpoint) as caught:
        decode_session(_bytes(document))
    assert "history" in str(caught.value)
    assert "private" not in str(caught.value)


def test_settings_are_checked_as_when_a_client_sets_them() -> None:
    document = _document()
    document["checkpoint"]["settings"]["turn_detection"]["threshold"] = 7.0
    with pytest.raises(BadCheckpoint, match="turn_detection"):
        decode_session(_bytes(document))


def test_one_bit_that_was_changed_is_found() -> None:
    encoded = bytearray(encode_session(_KEPT))
    encoded[len(encoded) // 2] ^= 1
    with pytest.raises(BadCheckpoint, match="digest"):
        decode_session(bytes(encoded))
    with pytest.raises(BadCheckpoint, match="digest"):
        decode_session(encode_session(_KEPT)[:-1])


def test_its_size_is_bounded_both_ways() -> None:
    long = replace(_CHECKPOINT, turns=replace(_CHECKPOINT.turns, memory={"notes": "x" * LONGEST_BYTES}))
    with pytest.raises(BadCheckpoint, match=f"allowed: {LONGEST_BYTES}"):
        encode_session(KeptSession(long))
    with pytest.raises(BadCheckpoint, match=f"allowed: {LONGEST_BYTES}"):
        decode_session(b" " * (LONGEST_BYTES + 1))


def test_notes_that_are_no_json_are_refused() -> None:
    odd = replace(_CHECKPOINT, turns=replace(_CHECKPOINT.turns, memory={"notes": object()}))
    with pytest.raises(BadCheckpoint, match="memory"):
        encode_session(KeptSession(odd))


@given(st.binary(max_size=400) | st.text(max_size=100).map(str.encode), st.booleans())
def test_anything_else_is_refused_and_nothing_escapes(body: bytes, has_digest: bool) -> None:
    encoded = hashlib.blake2b(body, digest_size=16).digest() + body if has_digest else body
    with pytest.raises(BadCheckpoint):
        decode_session(encoded)
