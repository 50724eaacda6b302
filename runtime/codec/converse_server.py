"""What our server says in our own messages, from agent events."""

from __future__ import annotations

from typing import Final, assert_never

from protos.switchboard.v1 import voice_pb2 as pb
from runtime.codec.audio_formats import to_wire
from runtime.codec.converse_config import format_to
from runtime.dialogue import agent_events as ev
from runtime.dialogue.session_settings import SessionSettings

__all__ = ["ConverseEncoder"]

_STATUSES: Final = {
    ev.ReplyStatus.COMPLETED: pb.REPLY_STATUS_COMPLETED,
    ev.ReplyStatus.INTERRUPTED: pb.REPLY_STATUS_CANCELLED,
    ev.ReplyStatus.CANCELLED: pb.REPLY_STATUS_CANCELLED,
    ev.ReplyStatus.WITHDRAWN: pb.REPLY_STATUS_WITHDRAWN,
    ev.ReplyStatus.FAILED: pb.REPLY_STATUS_FAILED,
}


class ConverseEncoder:
    """Agent events to messages, with ordinals; knows the output format that each chunk is tagged with."""

    def __init__(self, settings: SessionSettings, told: tuple[int, int] = (0, 0)) -> None:
        """Args: `told`: where another encoder stood: the last message's ordinal, and the media time of its reply."""
        self._settings = settings
        self.ordinal, self._media_time_ms = told

    @property
    def told(self) -> tuple[int, int]:
        """What another encoder goes on from."""
        return self.ordinal, self._media_time_ms

    def encode(self, event: ev.AgentEvent) -> list[pb.ConverseResponse]:
        """Messages in order; an empty list for what this wire does not say."""
        response = self._response(event)
        if response is None:
            return []
        self.ordinal += 1
        response.ordinal = self.ordinal
        return [response]

    def _response(self, event: ev.AgentEvent) -> pb.ConverseResponse | None:
        match event:
            case ev.SessionOpened(session_id, epoch, runtime_id, settings, resume_token):
                started = pb.SessionStarted(
                    session_id=session_id,
                    epoch=epoch,
                    runtime_id=runtime_id,
                    input_format=format_to(settings.input_format),
                    output_format=format_to(settings.output_format),
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
            case ev.ToolRequested(generation, call_id, name, arguments):
                asked = pb.ToolRequest(call_id=call_id, name=name, arguments_json=arguments)
                return pb.ConverseResponse(generation=generation, tool_request=asked)
            case ev.OutputHeld(generation):
                return pb.ConverseResponse(generation=generation, held=pb.OutputHeld())
            case ev.OutputResumed(generation):
                return pb.ConverseResponse(generation=generation, resumed=pb.OutputResumed())
            case ev.InputWithdrawn():
                return pb.ConverseResponse(withdrawn=pb.InputWithdrawn())
            case ev.TransferRequested(target):
                return pb.ConverseResponse(transfer=pb.Transfer(target=target))
            case ev.TranscriptPartial(_, text):
                return pb.ConverseResponse(transcript=pb.Transcript(text=text, is_final=False))
            case ev.SessionConfigured() | ev.InputCommitted() | ev.InputCleared() | ev.DtmfReceived():
                return None
            case ev.TextAdded() | ev.ItemDeleted() | ev.Echoed():
                return None
            case _:
                assert_never(event)

    def _chunk(self, pcm: bytes) -> pb.AudioChunk:
        chunk = pb.AudioChunk(
            data=to_wire(pcm, self._settings.output_format),
            format=format_to(self._settings.output_format),
            media_time_ms=self._media_time_ms,
        )
        self._media_time_ms += len(pcm) // 2 * 1000 // self._settings.output_format.sample_rate_hz
        return chunk
