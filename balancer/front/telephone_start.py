"""What a telephone stream says of itself before its audio, as far as it concerns the place that it gets. Pure.

A media stream's address has no query: what its call needs comes in `start`, after the upgrade, among the custom parameters of the
call's owner. Those named `switchboard_...` are needs; the others are the agent's affair. What is wrong with a start is for the
runtime to say, so that there is one judge of it: a stream that does not begin as it should is placed by its path alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from balancer.front.responses import HttpError

__all__ = ["TelephoneStart", "start_among"]

_PREFIX: Final = "switchboard_"
_NEEDS: Final = ("abilities", "region", "min_version", "context_window", "priority", "tenant")
"""Agent and session are known by then: the one stands in the path, the other was told with the upgrade."""
_MESSAGES_BEFORE_START: Final = 4
_LONGEST_CALL_ID: Final = 128


@dataclass(frozen=True, slots=True)
class TelephoneStart:
    """`call_id`: names the telephone call, over all of its streams; empty: nothing is known of it."""

    call_id: str = ""
    needs: Mapping[str, object] = field(default_factory=dict)


def start_among(messages: Iterable[bytes]) -> TelephoneStart | None:
    """Reads a stream's first messages; None: more are needed. Raises HttpError 400 for a need that there is not."""
    for number, message in enumerate(messages, 1):
        event = _event(message)
        match event.get("event"):
            case "connected" if number < _MESSAGES_BEFORE_START:
                continue
            case "start":
                return _start(event)
            case _:
                return TelephoneStart()
    return None


def _start(event: Mapping[str, Any]) -> TelephoneStart:
    start = event.get("start")
    if not isinstance(start, dict):
        return TelephoneStart()
    parameters = start.get("customParameters")
    needs: dict[str, object] = {}
    for name, value in parameters.items() if isinstance(parameters, dict) else ():
        if name.startswith(_PREFIX):
            need = name.removeprefix(_PREFIX)
            if need not in _NEEDS:
                allowed = ", ".join(_PREFIX + each for each in _NEEDS)
                raise HttpError(400, "bad_field", f"unknown parameter {name[:40]!r}; allowed: {allowed}")
            needs[need] = value
    call_id = start.get("callSid")
    return TelephoneStart(call_id[:_LONGEST_CALL_ID] if isinstance(call_id, str) else "", needs)


def _event(message: bytes) -> Mapping[str, Any]:
    try:
        event = json.loads(message)
    except (ValueError, RecursionError):
        return {}
    return event if isinstance(event, dict) else {}
