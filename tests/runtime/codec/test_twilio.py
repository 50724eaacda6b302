"""Twilio Media Streams: what comes, what is sent, and marks as the clock of what was heard."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.codec.twilio import BrokenStream, MarkClock, TwilioDecoder, TwilioEncoder, start_from
from runtime.dialogue import agent_events as ev
from runtime.dialogue.caller_events import AppendAudio, Dtmf, Goodbye, Invalid, ReportHeard
from tests.support.twilio import MEDIA_FORMAT, start_message

_FRAME = bytes(320)


def _decode(marks: MarkClock | None = None, **message: Any) -> list[object]:
    return list(TwilioDecoder(marks or MarkClock()).decode(json.dumps(message)))


def test_a_stream_begins_with_connected_and_start() -> None:
    assert start_from('{"event": "connected", "protocol": "Call", "version": "1.0.0"}') is None
    start = start_from(start_message("MZ1", "CA1", {"table": "7"}))
    assert start is not None
    assert (start.stream_sid, start.call_sid, dict(start.parameters)) == ("MZ1", "CA1", {"table": "7"})


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("no json", "no JSON object"),
        ('{"event": "media"}', "expected connected, then start"),
        ('{"event": "start", "start": {}}', "streamSid"),
        (
            start_message("MZ1", "CA1", {}, media_format={**MEDIA_FORMAT, "sampleRate": 16000}),
            "16000.*expected audio/x-mulaw at 8000 Hz",
        ),
        (start_message("MZ1", "CA1", {"note": "x" * 2_000}), "1024 characters"),
        (start_message("MZ1", "CA1", {str(number): "" for number in range(40)}), "at most 32"),
    ],
)
def test_a_stream_of_another_kind_is_refused_by_name(message: str, words: str) -> None:
    with pytest.raises(BrokenStream, match=words):
        start_from(message)


def test_what_a_caller_does() -> None:
    payload = b64encode(bytes([0xFF] * 160)).decode()
    (audio,) = _decode(event="media", media={"track": "inbound", "payload": payload})
    assert isinstance(audio, AppendAudio)
    assert audio.pcm == bytes(320)
    assert _decode(event="media", media={"track": "outbound", "payload": payload}) == []
    assert _decode(event="dtmf", dtmf={"digit": "#"}) == [Dtmf("#")]
    assert _decode(event="stop") == [Goodbye()]
    assert _decode(event="something new") == []


@pytest.mark.parametrize(
    "message",
    [
        {"event": "media"},
        {"event": "media", "media": {"payload": "!"}},
        {"event": "media", "media": {"payload": "A" * 70_000}},
        {"event": "dtmf", "dtmf": {"digit": "x"}},
    ],
)
def test_a_broken_message_is_answered_and_the_call_goes_on(message: dict[str, Any]) -> None:
    (event,) = _decode(**message)
    assert isinstance(event, Invalid)


def test_audio_goes_out_with_marks_behind_it() -> None:
    marks = MarkClock()
    encoder = TwilioEncoder("MZ1", marks)
    encoder.encode(ev.ReplyStarted(3, "i", ""))
    tone = np.full(160, 1_000, "<i2").tobytes()
    sent = [json.loads(text) for _ in range(6) for text in encoder.encode(ev.ReplyAudio(3, tone))]
    sent += [json.loads(text) for text in encoder.encode(ev.ReplyDone(3, ev.ReplyStatus.COMPLETED, "x", 120))]
    assert [message["event"] for message in sent] == ["media"] * 5 + ["mark", "media", "mark"]
    assert {message["streamSid"] for message in sent} == {"MZ1"}
    assert len(b64decode(sent[0]["media"]["payload"])) == 160
    names = [message["mark"]["name"] for message in sent if message["event"] == "mark"]
    heard = [_decode(marks, event="mark", mark={"name": name}) for name in names]
    assert heard == [[ReportHeard(3, 100)], [ReportHeard(3, 120)]]


def test_marks_that_a_clear_brings_back_say_nothing() -> None:
    marks = MarkClock()
    encoder = TwilioEncoder("MZ1", marks)
    encoder.encode(ev.ReplyStarted(1, "i", ""))
    sent = [json.loads(text) for _ in range(5) for text in encoder.encode(ev.ReplyAudio(1, _FRAME))]
    name = sent[-1]["mark"]["name"]
    (clear,) = encoder.encode(ev.Flush(1))
    assert json.loads(clear) == {"event": "clear", "streamSid": "MZ1"}
    assert _decode(marks, event="mark", mark={"name": name}) == []
    encoder.encode(ev.ReplyStarted(2, "j", ""))
    later = [json.loads(text) for _ in range(5) for text in encoder.encode(ev.ReplyAudio(2, _FRAME))][-1]["mark"]["name"]
    assert _decode(marks, event="mark", mark={"name": later}) == [ReportHeard(2, 100)]


@pytest.mark.parametrize("name", [None, 7, "", "hello", "1:", ":1", "1:-2", "1:²", "9" * 50 + ":1"])
def test_marks_of_others_say_nothing(name: object) -> None:
    assert _decode(event="mark", mark={"name": name}) == []


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
_fields = st.sampled_from(["media", "mark", "dtmf", "stop", "start", "streamSid", "payload"])


@given(st.sampled_from(["media", "mark", "dtmf", "start", "connected", "x"]), st.dictionaries(_fields, _json))
def test_no_event_raises_anything_but_a_broken_stream(kind: str, fields: dict[str, Any]) -> None:
    text = json.dumps({**fields, "event": kind})
    TwilioDecoder(MarkClock()).decode(text)
    with suppress(BrokenStream):
        start_from(text)


@given(st.text())
def test_no_text_raises_anything_but_a_broken_stream(text: str) -> None:
    for read in (start_from, TwilioDecoder(MarkClock()).decode):
        with suppress(BrokenStream):
            read(text)
