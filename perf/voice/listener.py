"""What one caller hears of a call, with the times at which it came. Pure: times are arguments, in seconds of one clock."""

from __future__ import annotations

from base64 import b64decode
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["HeardItem", "HeardReply", "Listener"]

_BYTES_PER_S: Final = 2 * 24_000


@dataclass(slots=True)
class HeardItem:
    """A turn as the server took it. `text` None: no transcript yet."""

    item_id: str
    committed_s: float
    text: str | None = None
    transcribed_s: float | None = None
    is_withdrawn: bool = False


@dataclass(slots=True)
class HeardReply:
    """`status`: empty while it runs. `stale_frames`: audio that came after its end."""

    response_id: str
    created_s: float
    first_text_s: float | None = None
    first_audio_s: float | None = None
    last_audio_s: float | None = None
    audio_s: float = 0.0
    status: str = ""
    done_s: float | None = None
    stale_frames: int = 0

    @property
    def plays_until_s(self) -> float:
        """When what came has been played, if it is played as it comes."""
        return (self.first_audio_s or self.created_s) + self.audio_s


@dataclass(slots=True)
class Listener:
    """Feed it every event in order."""

    items: list[HeardItem] = field(default_factory=list)
    replies: list[HeardReply] = field(default_factory=list)
    stopped_s: list[float] = field(default_factory=list)
    """When the server took the caller to have stopped."""
    errors: list[str] = field(default_factory=list)

    def hear(self, event: dict[str, Any], now_s: float) -> None:
        match event["type"]:
            case "input_audio_buffer.speech_stopped":
                self.stopped_s.append(now_s)
            case "input_audio_buffer.committed":
                self.items.append(HeardItem(event["item_id"], now_s))
            case "conversation.item.deleted":
                for item in self.items:
                    item.is_withdrawn = item.is_withdrawn or item.item_id == event["item_id"]
            case "conversation.item.input_audio_transcription.completed":
                for item in self.items:
                    if item.item_id == event["item_id"]:
                        item.text, item.transcribed_s = event["transcript"], now_s
            case "response.created":
                self.replies.append(HeardReply(event["response"]["id"], now_s))
            case "response.output_audio_transcript.delta":
                reply = self._reply(event["response_id"])
                reply.first_text_s = reply.first_text_s or now_s
            case "response.output_audio.delta":
                self._hear_audio(self._reply(event["response_id"]), len(b64decode(event["delta"])), now_s)
            case "response.done":
                reply = self._reply(event["response"]["id"])
                reply.status, reply.done_s = event["response"]["status"], now_s
            case "error":
                self.errors.append(f"{event['error']['code']}: {event['error']['message']}")
            case _:
                pass

    def answer_to(self, voiced_until_s: float) -> HeardReply | None:
        """The reply that answers speech which ended then: the latest whose audio began after it, unless that was taken back."""
        for reply in reversed(self.replies):
            if reply.first_audio_s is not None and reply.first_audio_s >= voiced_until_s and reply.status in ("", "completed"):
                return reply
        return None

    @property
    def running(self) -> HeardReply | None:
        """The reply that is still being made or said."""
        return self.replies[-1] if self.replies and not self.replies[-1].status else None

    def _hear_audio(self, reply: HeardReply, count: int, now_s: float) -> None:
        if reply.status:
            reply.stale_frames += 1
            return
        reply.first_audio_s = reply.first_audio_s or now_s
        reply.last_audio_s = now_s
        reply.audio_s += count / _BYTES_PER_S

    def _reply(self, response_id: str) -> HeardReply:
        return next(reply for reply in reversed(self.replies) if reply.response_id == response_id)
