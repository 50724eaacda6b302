"""Our own protobuf messages (gRPC Converse, later binary WebSocket): decoding what a caller sends, encoding what it is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, assert_never

from protos.switchboard.v1 import voice_pb2 as pb
from runtime.codec.audio_formats import BadAudio, from_wire, to_wire
from runtime.dialogue import agent_events as ev
from runtime.dialogue.caller_events import (
    AppendAudio,
    CallerEvent,
    EndOfInput,
    Goodbye,
    Interrupt,
    Invalid,
    ReportHeard,
    RequestReply,
    SayText,
)
from runtime.dialogue.session_settings import AudioEncoding, AudioFormat, SessionSettings

__all__ = ["BrokenContract", "ConverseDecoder", "ConverseEncoder", "settings_from"]

_LONGEST_CHUNK_BYTES: Final = 64 * 1024
_LONGEST_TEXT: Final = 16 * 1024
_NUMBERS: Final[Mapping[AudioEncoding, pb.AudioEncoding.ValueType]] = {
    AudioEncoding.PCM16: pb.AUDIO_ENCODING_PCM16,
    AudioEncoding.MULAW: pb.AUDIO_ENCODING_MULAW,
    AudioEncoding.ALAW: pb.AUDIO_ENCODING_ALAW,
}
_ENCODINGS: Final[Mapping[int, AudioEncoding]] = {number: encoding for encoding, number in _NUMBERS.items()}
_STATUSES: Final = {
    ev.ReplyStatus.COMPLETED: pb.REPLY_STATUS_COMPLETED,
    ev.ReplyStatus.INTERRUPTED: pb.REPLY_STATUS_CANCELLED,
    ev.ReplyStatus.CANCELLED: pb.REPLY_STATUS_CANCELLED,
    ev.ReplyStatus.WITHDRAWN: pb.REPLY_STATUS_CANCELLED,
    ev.ReplyStatus.FAILED: pb.REPLY_STATUS_FAILED,
}


class BrokenContract(ValueError):
    """The peer broke the message contract; the session cannot go on. The text names the field and what is allowed."""


def settings_from(config: pb.SessionConfig, default_agent: str) -> SessionSettings:
    """The settings that a `SessionConfig` asks for. Raises BrokenContract."""
    if not config.HasField("input_format"):
        raise BrokenContract("config.input_format is missing; it names encoding and sample_rate_hz")
    input_format = _format_from(config.input_format, "config.input_format")
    output_format = input_format
    if config.HasField("output_format"):
        output_format = _format_from(config.output_format, "config.output_format")
    if len(config.metadata) > 32 or any(len(key) + len(value) > 1024 for key, value in config.metadata.items()):
        raise BrokenContract("config.metadata; allowed: at most 32 entries of at most 1 KiB")
    if len(config.instructions) > _LONGEST_TEXT:
        raise BrokenContract(f"config.instructions; allowed: at most {_LONGEST_TEXT} characters")
    return SessionSettings(
        agent=config.agent or default_agent,
        input_format=input_format,
        output_format=output_format,
        instructions=config.instructions,
        metadata=dict(config.metadata),
    )


def _format_from(message: pb.AudioFormat, path: str) -> AudioFormat:
    encoding = _ENCODINGS.get(message.encoding)
    if encoding is None:
        raise BrokenContract(f"{path}.encoding is {message.encoding}; allowed: PCM16, MULAW, ALAW")
    try:
        return AudioFormat(encoding, message.sample_rate_hz)
    except ValueError as error:
        raise BrokenContract(f"{path}: {error}") from None


class ConverseDecoder:
    """Messages after the configuration. Raises BrokenContract where the session cannot go on."""

    def __init__(self, settings: SessionSettings) -> None:
        self._settings = settings
        self._ordinal = 1

    def decode(self, request: pb.ConverseRequest) -> CallerEvent:
        if request.ordinal and request.ordinal != self._ordinal + 1:
            raise BrokenContract(f"ordinal is {request.ordinal}; allowed: {self._ordinal + 1}, or 0 for none")
        self._ordinal += 1
        match request.WhichOneof("payload"):
            case "audio":
                return self._audio(request.audio)
            case "end_of_input":
                return EndOfInput()
            case "end":
                return Goodbye()
            case "text":
                if not request.text.strip() or len(request.text) > _LONGEST_TEXT:
                    return Invalid("invalid_value", f"text; allowed: 1 to {_LONGEST_TEXT} characters", str(self._ordinal))
                return SayText(request.text)
            case "interrupt":
                return Interrupt()
            case "heard":
                return ReportHeard(request.heard.generation, request.heard.played_ms)
            case "config":
                raise BrokenContract("config came twice; it is the first message only")
            case _:
                return Invalid("unknown_event", "the message has no payload that this server knows", str(self._ordinal))

    def follow_up(self, event: CallerEvent) -> CallerEvent | None:
        """On this wire a typed turn asks for its reply by itself."""
        return RequestReply() if isinstance(event, SayText) else None

    def _audio(self, chunk: pb.AudioChunk) -> CallerEvent:
        expected = self._settings.input_format
        longest = min(_LONGEST_CHUNK_BYTES, expected.sample_rate_hz * expected.bytes_per_sample)
        if not 0 < len(chunk.data) <= longest:
            raise BrokenContract(f"audio.data has {len(chunk.data)} bytes; allowed: 1 to {longest}, one second")
        if _format_from(chunk.format, "audio.format") != expected:
            raise BrokenContract(f"audio.format is {_format_from(chunk.format, 'audio.format')}; expected: {expected}")
        try:
            return AppendAudio(from_wire(chunk.data, expected))
        except BadAudio as error:
            raise BrokenContract(f"audio.data: {error}") from None


class ConverseEncoder:
    """Agent events to messages, with ordinals; knows the output format that each chunk is tagged with."""

    def __init__(self, settings: SessionSettings) -> None:
        self._settings = settings
        self._ordinal = 0
        self._media_time_ms = 0

    def encode(self, event: ev.AgentEvent) -> list[pb.ConverseResponse]:
        """Messages in order; an empty list for what this wire does not say."""
        response = self._response(event)
        if response is None:
            return []
        self._ordinal += 1
        response.ordinal = self._ordinal
        return [response]

    def _response(self, event: ev.AgentEvent) -> pb.ConverseResponse | None:
        match event:
            case ev.SessionOpened(session_id, epoch, runtime_id, settings, resume_token):
                started = pb.SessionStarted(
                    session_id=session_id,
                    epoch=epoch,
                    runtime_id=runtime_id,
                    input_format=_format_to(settings.input_format),
                    output_format=_format_to(settings.output_format),
                    resume_token=resume_token,
                )
                return pb.ConverseResponse(started=started)
            case ev.SpeechStarted(_, at_ms):
                return pb.ConverseResponse(speech_started=pb.SpeechStarted(media_time_ms=at_ms))
            case ev.SpeechStopped(_, _, voiced_until_ms):
                return pb.ConverseResponse(speech_stopped=pb.SpeechStopped(media_time_ms=voiced_until_ms))
            case ev.TranscriptReady(_, text, _):
                return pb.ConverseResponse(transcript=pb.Transcript(text=text, is_final=True))
            case ev.TranscriptFailed(_, text):
                return pb.ConverseResponse(error=pb.SoftError(code="transcription_failed", message=text))
            case ev.ReplyStarted(generation):
                self._media_time_ms = 0
                return pb.ConverseResponse(generation=generation, reply_started=pb.ReplyStarted())
            case ev.ReplyText(generation, delta):
                return pb.ConverseResponse(generation=generation, reply_text=pb.ReplyText(delta=delta))
            case ev.ReplyAudio(generation, pcm):
                return pb.ConverseResponse(generation=generation, reply_audio=pb.ReplyAudio(chunk=self._chunk(pcm)))
            case ev.ToolStarted(generation, call_id, name, arguments):
                call = pb.ToolCall(call_id=call_id, name=name, arguments_json=arguments)
                return pb.ConverseResponse(generation=generation, tool_call=call)
            case ev.ToolFinished(generation, call_id, _, _, result, is_error):
                finished = pb.ToolResult(call_id=call_id, result_json=result, is_error=is_error)
                return pb.ConverseResponse(generation=generation, tool_result=finished)
            case ev.Flush(generation):
                return pb.ConverseResponse(generation=generation, flush=pb.Flush())
            case ev.ReplyDone(generation, status, text, _):
                done = pb.ReplyDone(status=_STATUSES[status], text=text)
                return pb.ConverseResponse(generation=generation, reply_done=done)
            case ev.SoftError(code, message, event_id, _):
                ordinal = int(event_id) if event_id.isdecimal() else 0
                return pb.ConverseResponse(error=pb.SoftError(code=code, message=message, ordinal=ordinal))
            case ev.SessionClosed(reason):
                return pb.ConverseResponse(ended=pb.SessionEnded(reason=reason))
            case ev.DtmfReceived() | ev.OutputHeld() | ev.OutputResumed() | ev.ToolRequested() | ev.TransferRequested():
                return None
            case ev.TranscriptPartial(_, text):
                return pb.ConverseResponse(transcript=pb.Transcript(text=text, is_final=False))
            case (
                ev.SessionConfigured()
                | ev.InputCommitted()
                | ev.InputCleared()
                | ev.InputWithdrawn()
                | ev.TextAdded()
                | ev.ItemDeleted()
                | ev.Echoed()
            ):
                return None
            case _:
                assert_never(event)

    def _chunk(self, pcm: bytes) -> pb.AudioChunk:
        chunk = pb.AudioChunk(
            data=to_wire(pcm, self._settings.output_format),
            format=_format_to(self._settings.output_format),
            media_time_ms=self._media_time_ms,
        )
        self._media_time_ms += len(pcm) // 2 * 1000 // self._settings.output_format.sample_rate_hz
        return chunk


def _format_to(audio_format: AudioFormat) -> pb.AudioFormat:
    return pb.AudioFormat(encoding=_NUMBERS[audio_format.encoding], sample_rate_hz=audio_format.sample_rate_hz)
