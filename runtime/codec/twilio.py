"""Twilio Media Streams, the bidirectional kind: a telephone call as JSON text messages, mu-law at 8000 Hz in base64.

Marks are the play-out clock: the far end names a mark when it has played what came before it, so an echoed mark says how much was
heard. After a `clear` it names all marks at once, played or not, and those say nothing.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from runtime.codec.audio_formats import from_wire, to_wire
from runtime.dialogue import agent_events as ev
from runtime.dialogue.caller_events import AppendAudio, CallerEvent, Dtmf, Goodbye, Invalid, ReportHeard
from runtime.dialogue.session_settings import AudioEncoding, AudioFormat

__all__ = ["TWILIO_FORMAT", "BrokenStream", "MarkClock", "TwilioDecoder", "TwilioEncoder", "TwilioStart", "start_from"]

TWILIO_FORMAT: Final = AudioFormat(AudioEncoding.MULAW, 8_000)
_MARK_EVERY_MS: Final = 100
_LAST: Final = ":end"
_LONGEST_PAYLOAD: Final = 64 * 1024
_MOST_PARAMETERS: Final = 32
_LONGEST_PARAMETER: Final = 1_024
_KEYS: Final = frozenset("0123456789*#ABCD")


class BrokenStream(ValueError):
    """The far end does not speak this protocol; the call cannot go on. The text says what was expected."""


@dataclass(frozen=True, slots=True)
class TwilioStart:
    """Facts of the call, from the stream's `start`.

    Attributes:
        parameters: what the call's owner gave along (`<Parameter>`), at most 32 of 1 KiB.
    """

    stream_sid: str
    call_sid: str
    parameters: Mapping[str, str]


def start_from(message: str) -> TwilioStart | None:
    """Reads what comes before the audio: None for `connected`. Raises BrokenStream."""
    event = _event(message)
    match event.get("event"):
        case "connected":
            return None
        case "start":
            return _start(event)
    raise BrokenStream(f"event is {event.get('event')!s:.32}; expected connected, then start")


def _start(event: Mapping[str, Any]) -> TwilioStart:
    start = event.get("start")
    if not isinstance(start, Mapping):
        raise BrokenStream("start is missing; expected an object")
    stream_sid = event.get("streamSid") or start.get("streamSid")
    if not isinstance(stream_sid, str) or not 1 <= len(stream_sid) <= 128:
        raise BrokenStream("streamSid; expected 1 to 128 characters")
    media = start.get("mediaFormat")
    if media is not None and (
        not isinstance(media, Mapping)
        or media.get("encoding") != "audio/x-mulaw"
        or str(media.get("sampleRate")) != "8000"
        or str(media.get("channels", 1)) != "1"
    ):
        raise BrokenStream(f"start.mediaFormat is {json.dumps(media)[:80]}; expected audio/x-mulaw at 8000 Hz, 1 channel")
    parameters = start.get("customParameters") or {}
    if not isinstance(parameters, Mapping) or len(parameters) > _MOST_PARAMETERS:
        raise BrokenStream(f"start.customParameters; expected at most {_MOST_PARAMETERS}")
    if any(len(name) + len(str(value)) > _LONGEST_PARAMETER for name, value in parameters.items()):
        raise BrokenStream(f"start.customParameters; expected at most {_LONGEST_PARAMETER} characters each")
    call_sid = start.get("callSid")
    return TwilioStart(
        stream_sid,
        call_sid[:128] if isinstance(call_sid, str) else "",
        {name: str(value) for name, value in parameters.items()},
    )


def _event(message: str) -> Mapping[str, Any]:
    try:
        event = _JSON.decode(message)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        event = None
    if not isinstance(event, dict):
        raise BrokenStream("the message is no JSON object; expected Twilio Media Streams events")
    return event


_JSON: Final = msgspec.json.Decoder()


class MarkClock:
    """Names marks and reads them when they come back. Shared by both directions of a stream."""

    def __init__(self, cleared_upto: int = 0) -> None:
        self.cleared_upto = cleared_upto

    def name(self, generation: int, sent_ms: int, is_last: bool) -> str:
        return f"{generation}:{sent_ms}{_LAST if is_last else ''}"

    def cleared(self, generation: int) -> None:
        self.cleared_upto = max(self.cleared_upto, generation)

    def heard(self, name: object) -> ReportHeard | None:
        """None: not our mark, or one that a `clear` brought back."""
        parts = name.removesuffix(_LAST).partition(":") if isinstance(name, str) and len(name) <= 40 else ("", "", "")
        generation, _, played_ms = parts
        if not (generation.isascii() and generation.isdecimal() and played_ms.isascii() and played_ms.isdecimal()):
            return None
        if int(generation) <= self.cleared_upto:
            return None
        return ReportHeard(int(generation), int(played_ms))


class TwilioDecoder:
    """Messages after `start`. One that is broken becomes `Invalid`; what is no event at all raises BrokenStream."""

    def __init__(self, marks: MarkClock) -> None:
        self._marks = marks

    def decode(self, message: str) -> Sequence[CallerEvent]:
        event = _event(message)
        match event.get("event"):
            case "media":
                return self._media(event.get("media"))
            case "mark":
                mark = event.get("mark")
                heard = self._marks.heard(mark.get("name")) if isinstance(mark, Mapping) else None
                return [] if heard is None else [heard]
            case "dtmf":
                dtmf = event.get("dtmf")
                digit = dtmf.get("digit") if isinstance(dtmf, Mapping) else None
                if not isinstance(digit, str) or digit not in _KEYS:
                    return [Invalid("invalid_value", "dtmf.digit; allowed: one of 0-9 * # A-D")]
                return [Dtmf(digit)]
            case "stop":
                return [Goodbye()]
        return []  # the protocol grows; what we do not know is not for us

    def _media(self, media: object) -> Sequence[CallerEvent]:
        if not isinstance(media, Mapping) or not isinstance(media.get("payload"), str):
            return [Invalid("invalid_value", "media.payload is missing; expected base64 text")]
        if media.get("track", "inbound") != "inbound":
            return []  # what we said ourselves, where the stream carries both
        payload = media["payload"]
        if len(payload) > _LONGEST_PAYLOAD:
            return [Invalid("invalid_value", f"media.payload; allowed: at most {_LONGEST_PAYLOAD} characters")]
        try:
            return [AppendAudio(from_wire(b64decode(payload, validate=True), TWILIO_FORMAT))]
        except ValueError:
            return [Invalid("invalid_value", "media.payload is no base64 text")]


class TwilioEncoder:
    """Audio, marks and clears; everything else that a session tells has no word here."""

    def __init__(self, stream_sid: str, marks: MarkClock, told: tuple[int, float, float] = (0, 0.0, 0.0)) -> None:
        """Args: `told`: where another encoder stood: generation, and how much of it was sent and marked."""
        self._stream_sid = stream_sid
        self._marks = marks
        self._generation, self._sent_ms, self._marked_ms = told

    @property
    def told(self) -> tuple[int, float, float]:
        """What another encoder goes on from."""
        return self._generation, self._sent_ms, self._marked_ms

    def encode(self, event: ev.AgentEvent) -> list[str]:
        match event:
            case ev.ReplyStarted(generation):
                self._generation, self._sent_ms, self._marked_ms = generation, 0.0, 0.0
            case ev.ReplyAudio(_, pcm):
                payload = b64encode(to_wire(pcm, TWILIO_FORMAT)).decode()
                self._sent_ms += len(pcm) / 2 / TWILIO_FORMAT.sample_rate_hz * 1000
                told = [self._message("media", {"payload": payload})]
                return told if self._sent_ms - self._marked_ms < _MARK_EVERY_MS else [*told, self._mark(is_last=False)]
            case ev.ReplyDone(_, ev.ReplyStatus.COMPLETED | ev.ReplyStatus.FAILED):
                return [self._mark(is_last=True)]
            case ev.Flush(generation):
                self._marks.cleared(generation)
                return [self._message("clear", None)]
        return []

    def _mark(self, *, is_last: bool) -> str:
        self._marked_ms = self._sent_ms
        return self._message("mark", {"name": self._marks.name(self._generation, int(self._sent_ms), is_last)})

    def _message(self, kind: str, body: Mapping[str, str] | None) -> str:
        told: dict[str, Any] = {"event": kind, "streamSid": self._stream_sid}
        return json.dumps(told if body is None else {**told, kind: body})
