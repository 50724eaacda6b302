"""The far end of a Twilio Media Stream: its messages, and a play-out that answers marks as a telephone does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["MEDIA_FORMAT", "start_message"]

MEDIA_FORMAT: Final[Mapping[str, Any]] = {"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1}


def start_message(
    stream_sid: str, call_sid: str, parameters: Mapping[str, str], media_format: Mapping[str, Any] = MEDIA_FORMAT
) -> str:
    start = {
        "accountSid": "AC1",
        "streamSid": stream_sid,
        "callSid": call_sid,
        "tracks": ["inbound"],
        "mediaFormat": dict(media_format),
        "customParameters": dict(parameters),
    }
    return json.dumps({"event": "start", "sequenceNumber": "1", "start": start, "streamSid": stream_sid})
