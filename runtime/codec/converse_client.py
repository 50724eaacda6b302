"""What a caller says in our own messages, after the configuration, turned into caller events."""

from __future__ import annotations

from typing import Final

from protos.switchboard.v1 import voice_pb2 as pb
from runtime.codec.audio_formats import BadAudio, from_wire
from runtime.codec.converse_config import LONGEST_TEXT, BrokenContract, format_from
from runtime.dialogue.caller_events import (
    AppendAudio,
    CallerEvent,
    ClearAudio,
    CommitAudio,
    Dtmf,
    EndOfInput,
    Goodbye,
    Interrupt,
    Invalid,
    ReportHeard,
    RequestReply,
    SayText,
    ToolOutput,
)
from runtime.dialogue.session_settings import SessionSettings

__all__ = ["ConverseDecoder"]

_LONGEST_CHUNK_BYTES: Final = 64 * 1024
_KEYS: Final = frozenset("0123456789*#ABCD")


class ConverseDecoder:
    """Raises BrokenContract where the session cannot go on."""

    def __init__(self, settings: SessionSettings, heard: int = 1) -> None:
        """Args: `heard`: ordinal of the last message that came; the configuration is the first."""
        self._settings = settings
        self.heard = heard

    def decode(self, request: pb.ConverseRequest) -> CallerEvent:
        if request.ordinal and request.ordinal != self.heard + 1:
            raise BrokenContract(f"ordinal is {request.ordinal}; allowed: {self.heard + 1}, or 0 for none")
        self.heard += 1
        here = str(self.heard)
        match request.WhichOneof("payload"):
            case "audio":
                return self._audio(request.audio)
            case "end_of_input":
                return EndOfInput()
            case "end":
                return Goodbye(request.end.after_reply)
            case "text":
                if not request.text.strip() or len(request.text) > LONGEST_TEXT:
                    return Invalid("invalid_value", f"text; allowed: 1 to {LONGEST_TEXT} characters", here)
                return SayText(request.text)
            case "interrupt":
                return Interrupt(here)
            case "heard":
                return ReportHeard(request.heard.generation, request.heard.played_ms)
            case "commit":
                return CommitAudio(here)
            case "clear":
                return ClearAudio()
            case "respond":
                return RequestReply(here)
            case "tool_output":
                output = request.tool_output
                if len(output.output) > LONGEST_TEXT:
                    return Invalid("invalid_value", f"tool_output.output; allowed: at most {LONGEST_TEXT} characters", here)
                return ToolOutput(output.call_id, output.output, output.is_error, here)
            case "dtmf":
                if request.dtmf not in _KEYS:
                    return Invalid("invalid_value", "dtmf; allowed: one of 0-9 * # A-D", here)
                return Dtmf(request.dtmf)
            case "config":
                raise BrokenContract("config came twice; it is the first message only")
            case _:
                return Invalid("unknown_event", "the message has no payload that this server knows", here)

    def follow_up(self, event: CallerEvent) -> CallerEvent | None:
        """On this wire a typed turn asks for its reply by itself."""
        return RequestReply() if isinstance(event, SayText) else None

    def _audio(self, chunk: pb.AudioChunk) -> CallerEvent:
        expected = self._settings.input_format
        longest = min(_LONGEST_CHUNK_BYTES, expected.sample_rate_hz * expected.bytes_per_sample)
        if not 0 < len(chunk.data) <= longest:
            raise BrokenContract(f"audio.data has {len(chunk.data)} bytes; allowed: 1 to {longest}, one second")
        if format_from(chunk.format, "audio.format") != expected:
            raise BrokenContract(f"audio.format is {format_from(chunk.format, 'audio.format')}; expected: {expected}")
        try:
            return AppendAudio(from_wire(chunk.data, expected))
        except BadAudio as error:
            raise BrokenContract(f"audio.data: {error}") from None
