"""What our server says in the OpenAI Realtime protocol (GA, or its beta dialect), from agent events.

Every event carries an `event_id` (clients stop without it). Tools that run on our side are shown as the protocol shows tools that
a server runs: items of type `mcp_call`. The client's own are `function_call` items.
"""

from __future__ import annotations

from typing import Final, assert_never

import msgspec

from runtime.codec.audio_formats import to_wire
from runtime.codec.realtime_beta import beta_from_ga
from runtime.codec.realtime_memory import Continue, ItemWish, KeepItem, RealtimeMemory, Truncate
from runtime.codec.realtime_response import Response, Usage, Wire
from runtime.codec.realtime_session import RealtimeSession, shown
from runtime.codec.realtime_told import RealtimeTold
from runtime.dialogue import agent_events as ev
from runtime.dialogue.agent import Role
from runtime.primitives.reasons import EndReason

__all__ = ["RealtimeEncoder"]

_GOODBYES: Final = {
    EndReason.IDLE_TIMEOUT: ("session_idle", "nothing came for too long"),
    EndReason.MAXIMUM_LENGTH: ("session_expired", "the session has reached its maximum length"),
    EndReason.DRAINED: ("server_draining", "this server is leaving; connect again"),
    EndReason.HANDLER_ERROR: ("server_error", "a fault on our side ended the session"),
    EndReason.PROTOCOL_ERROR: ("protocol_error", "the connection broke the protocol"),
}
_PARTS: Final = {
    Role.CALLER: ("user", "input_text"),
    Role.SYSTEM: ("system", "input_text"),
    Role.AGENT: ("assistant", "output_text"),
}


class RealtimeEncoder:
    """Encodes one session's events, in order; remembers the running response, since its events refer to it.

    Args:
        memory: shared with the session's decoder.
        told: where it begins, or where another encoder stood.
        is_beta: the client speaks the beta dialect.
    """

    def __init__(self, told: RealtimeTold, memory: RealtimeMemory, *, is_beta: bool = False) -> None:
        self._memory = memory
        self._is_beta = is_beta
        self.state = told
        self._encode = msgspec.json.Encoder().encode

    def encode(self, event: ev.AgentEvent) -> list[str]:
        """Text messages, in order; an empty list for what this wire does not say."""
        messages = self._messages(event)
        if self._is_beta:
            messages = [told for message in messages if (told := beta_from_ga(message)) is not None]
        return [self._text(message) for message in messages]

    def _text(self, message: Wire) -> str:
        self.state.events += 1
        return self._encode({"event_id": f"event_{self.state.events:06d}", **message}).decode()

    def _messages(self, event: ev.AgentEvent) -> list[Wire]:
        match event:
            case ev.SessionOpened():
                return self._session_opened(event)
            case ev.SpeechStarted(item_id, at_ms):
                return [{"type": "input_audio_buffer.speech_started", "item_id": item_id, "audio_start_ms": at_ms}]
            case ev.SpeechStopped(item_id, at_ms, _):
                return [{"type": "input_audio_buffer.speech_stopped", "item_id": item_id, "audio_end_ms": at_ms}]
            case ev.InputCommitted(item_id, previous):
                committed = {"type": "input_audio_buffer.committed", "item_id": item_id, "previous_item_id": previous or None}
                return [committed, *self._item(_item(item_id, "user", {"type": "input_audio", "transcript": None}))]
            case ev.TextAdded(item_id, _, text, said_by):
                role, part = _PARTS[said_by]
                return self._item(_item(item_id, role, {"type": part, "text": text}))
            case ev.InputWithdrawn(item_id) | ev.ItemDeleted(item_id):
                self._memory.forget(item_id)
                return [{"type": "conversation.item.deleted", "item_id": item_id}]
            case ev.InputCleared():
                return [{"type": "input_audio_buffer.cleared"}]
            case ev.TranscriptPartial(item_id, text):
                return self._partial(item_id, text)
            case ev.TranscriptReady(item_id, text, audio_ms):
                return self._transcribed(item_id, text, audio_ms)
            case ev.TranscriptFailed(item_id, message):
                kind = "conversation.item.input_audio_transcription.failed"
                error = {"type": "transcription_error", "code": "audio_unintelligible", "message": message, "param": None}
                return [{"type": kind, "item_id": item_id, "content_index": 0, "error": error}]
            case (
                ev.ReplyStarted()
                | ev.ReplyText()
                | ev.ReplyAudio()
                | ev.ToolStarted()
                | ev.ToolFinished()
                | ev.ToolRequested()
                | ev.ReplyDone()
            ):
                return self._reply(event)
            case ev.Echoed(what):
                return self._echoed(what)
            case ev.Flush() | ev.OutputHeld() | ev.OutputResumed():
                return []  # on this wire speech_started and the cancelled response tell the client to flush
            case ev.SessionConfigured() | ev.DtmfReceived() | ev.TransferRequested():
                return []
            case ev.SoftError("tool_not_waiting"):
                return []  # the reply that asked ended while the client's answer was on its way
            case ev.SoftError(code, text, event_id, parameter):
                return [_error("invalid_request_error", code, text, event_id, parameter)]
            case ev.SessionClosed(reason):
                return [_error("server_error", *_GOODBYES[reason], "", "")] if reason in _GOODBYES else []
            case _:
                assert_never(event)

    def _session_opened(self, event: ev.SessionOpened) -> list[Wire]:
        self.state.session_id = event.session_id
        created: list[Wire] = [{"type": "session.created", "session": shown(self.state.session_id, self.state.session)}]
        if self._is_beta:
            conversation = {"id": self.state.session_id, "object": "realtime.conversation"}
            created.append({"type": "conversation.created", "conversation": conversation})
        return created

    def _item(self, item: Wire) -> list[Wire]:
        """A whole item joins the conversation."""
        previous, self.state.last_item_id = self.state.last_item_id or None, item["id"]
        self._memory.keep(item)
        return [{"type": f"conversation.item.{what}", "previous_item_id": previous, "item": item} for what in ("added", "done")]

    def _partial(self, item_id: str, text: str) -> list[Wire]:
        """The protocol's deltas only add: a belief that was changed waits for the whole transcript."""
        said = self.state.partials.get(item_id, "")
        if not text.startswith(said) or text == said:
            return []
        self.state.partials = {item_id: text}
        kind = "conversation.item.input_audio_transcription.delta"
        return [{"type": kind, "item_id": item_id, "content_index": 0, "delta": text[len(said) :]}]

    def _transcribed(self, item_id: str, text: str, audio_ms: int) -> list[Wire]:
        self.state.heard_ms += audio_ms
        if self._memory.item(item_id) is not None:
            self._memory.keep(_item(item_id, "user", {"type": "input_audio", "transcript": text}))
        return [
            {
                "type": "conversation.item.input_audio_transcription.completed",
                "item_id": item_id,
                "content_index": 0,
                "transcript": text,
                "usage": {"type": "duration", "seconds": round(audio_ms / 1000, 3)},
            }
        ]

    def _reply(
        self,
        event: ev.ReplyStarted
        | ev.ReplyText
        | ev.ReplyAudio
        | ev.ToolStarted
        | ev.ToolFinished
        | ev.ToolRequested
        | ev.ReplyDone,
    ) -> list[Wire]:
        if isinstance(event, ev.ReplyStarted):
            self.state.started, self.state.responses, self.state.is_replying = event, 0, True
            self.state.output_format = self.state.session.settings.output_format  # a reply keeps the format that it began in
            return self._open()
        if isinstance(event, ev.ReplyDone):
            return self._reply_done(event)
        opened = [] if self.state.response is not None else self._open()
        response = self.state.response
        assert response is not None, "opened above"
        match event:
            case ev.ReplyText(_, delta):
                return opened + self._message(response, response.text(delta))
            case ev.ReplyAudio(_, pcm):
                audio_ms = len(pcm) / 2 / self.state.output_format.sample_rate_hz * 1000
                told = self._message(response, response.audio(to_wire(pcm, self.state.output_format)))
                self._memory.sent(response.item_id, audio_ms)
                self.state.spoken_ms += audio_ms
                return opened + told
            case ev.ToolStarted():
                return opened + response.tool_started(event)
            case ev.ToolFinished():
                return opened + response.tool_finished(event)
            case ev.ToolRequested(generation, call_id):
                asked = response.tool_requested(event)
                self._memory.call_opened(call_id, generation)
                self._memory.keep(asked[-1]["item"])
                closed = self._close(ev.ReplyStatus.COMPLETED, None)
                self.state.last_item_id = asked[-1]["item"]["id"]
                return opened + asked + closed

    def _message(self, response: Response, told: list[Wire]) -> list[Wire]:
        if len(told) > 1 and self.state.started is not None:  # the message item is new
            self._memory.is_reply(response.item_id, self.state.started.generation, self.state.started.item_id)
            self.state.last_item_id = response.item_id
        return told

    def _open(self) -> list[Wire]:
        started = self.state.started
        assert started is not None, "a reply's events follow its start"
        self.state.responses += 1
        part = "" if self.state.responses == 1 else f"_{self.state.responses}"
        response = self.state.response = Response(
            f"resp_{started.generation:04d}{part}",
            f"{started.item_id}{part}",
            self.state.last_item_id,
            started.speaks,
            self.state.output_format,
            started.metadata,
            self.state.session_id,
        )
        self._memory.response_id = response.response_id
        return response.created()

    def _close(self, status: ev.ReplyStatus, heard_text: str | None) -> list[Wire]:
        response = self.state.response
        assert response is not None, "asked by those who know one"
        usage = Usage(self.state.heard_ms, int(self.state.spoken_ms))
        self.state.heard_ms, self.state.spoken_ms = 0, 0.0
        told = response.done(status, heard_text, usage)
        message = response.message()
        if message is not None:
            self._memory.keep(message)
        self.state.response = None
        self._memory.response_id = ""
        return told

    def _reply_done(self, event: ev.ReplyDone) -> list[Wire]:
        self._memory.calls_over()
        self.state.is_replying = False
        if self.state.response is None:
            return []  # it waited for the client's tools: its response is done already
        is_whole = event.status in (ev.ReplyStatus.COMPLETED, ev.ReplyStatus.FAILED)
        # Of a reply in several responses, the heard text is that of them all: the last one's own part is not known.
        heard = None if is_whole else event.text if self.state.responses == 1 else ""
        return self._close(event.status, heard)

    def _echoed(self, what: object) -> list[Wire]:
        match what:
            case RealtimeSession():
                self.state.session = what
                return [{"type": "session.updated", "session": shown(self.state.session_id, what)}]
            case KeepItem(created):
                return self._item(created)
            case ItemWish(item_id, event_id):
                item = self._memory.item(item_id)
                if item is None:
                    text = f"there is no item {item_id!r}"
                    return [_error("invalid_request_error", "item_retrieve_invalid_item_id", text, event_id, "item_id")]
                return [{"type": "conversation.item.retrieved", "item": item}]
            case Truncate(item_id, content_index, audio_end_ms):
                truncated = {"item_id": item_id, "content_index": content_index, "audio_end_ms": audio_end_ms}
                return [{"type": "conversation.item.truncated", **truncated}]
            case Continue(generation):
                if self.state.response is not None:
                    return []
                opened = self._open()
                if self.state.is_replying and self.state.started is not None and self.state.started.generation == generation:
                    return opened
                return opened + self._close(ev.ReplyStatus.INTERRUPTED, None)
        return []


def _item(item_id: str, role: str, part: Wire) -> Wire:
    return {
        "id": item_id,
        "object": "realtime.item",
        "type": "message",
        "status": "completed",
        "role": role,
        "content": [part],
    }


def _error(kind: str, code: str, text: str, event_id: str, parameter: str) -> Wire:
    error = {"type": kind, "code": code, "message": text, "param": parameter or None, "event_id": event_id or None}
    return {"type": "error", "error": error}
