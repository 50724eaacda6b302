"""What a Realtime session's client was told, as far as what it is told next depends on it."""

from __future__ import annotations

from dataclasses import dataclass, field

from runtime.codec.realtime_response import Response
from runtime.codec.realtime_session import RealtimeSession
from runtime.dialogue.agent_events import ReplyStarted
from runtime.dialogue.session_settings import AudioFormat

__all__ = ["RealtimeTold"]


@dataclass(slots=True)
class RealtimeTold:
    """Plain values throughout: it is part of a checkpoint.

    Attributes:
        session: as the client was last shown it.
        heard_ms, spoken_ms: audio since the last response that was counted.
        started: the newest reply; `responses` of it were opened, and `response` is open.
    """

    session: RealtimeSession
    output_format: AudioFormat
    session_id: str = ""
    events: int = 0
    last_item_id: str = ""
    partials: dict[str, str] = field(default_factory=dict)
    heard_ms: int = 0
    spoken_ms: float = 0.0
    started: ReplyStarted | None = None
    is_replying: bool = False
    responses: int = 0
    response: Response | None = None

    @staticmethod
    def nothing(session: RealtimeSession) -> RealtimeTold:
        """Where an encoder begins."""
        return RealtimeTold(session, session.settings.output_format)
