"""What the front answers in plain HTTP, as bytes. Every such answer ends its connection."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from balancer.placement.errors import PlacementRefused
from runtime.primitives.errors import Fault, VoiceError

__all__ = ["HttpError", "error_response", "file_response", "json_response", "refusal_response"]

_MOST_RUNTIMES_NAMED: Final = 64
Json = dict[str, Any]  # Any: JSON


class HttpError(VoiceError):
    """A request that the front itself answers. `message` names the field; it never repeats what the caller sent elsewhere."""

    fault = Fault.PEER

    def __init__(self, status: int, code: str, message: str, headers: Sequence[tuple[str, str]] = ()) -> None:
        self.status = status
        self.code = code
        self.headers = tuple(headers)
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class _Response:
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def __bytes__(self) -> bytes:
        lines = [f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        lines += [f"content-length: {len(self.body)}", "connection: close", "", ""]
        return "\r\n".join(lines).encode("latin-1") + self.body


def json_response(status: int, document: Json, headers: Sequence[tuple[str, str]] = ()) -> bytes:
    body = json.dumps(document, separators=(",", ":")).encode() + b"\n"
    return bytes(_Response(status, (("content-type", "application/json"), *headers), body))


def file_response(body: bytes, content_type: str, headers: Sequence[tuple[str, str]] = ()) -> bytes:
    return bytes(_Response(200, (("content-type", content_type), *headers), body))


def error_response(error: HttpError) -> bytes:
    return json_response(error.status, {"error": {"code": error.code, "message": str(error)}}, error.headers)


def refusal_response(refused: PlacementRefused) -> bytes:
    """The refusal with each runtime's reason (at most 64 of them), the place in the queue where callers may wait, and, where
    coming again may help, Retry-After."""
    error: Json = {"code": refused.code, "message": str(refused)}
    headers: list[tuple[str, str]] = []
    if refused.retry_after_s > 0:
        error["retry_after_s"] = refused.retry_after_s
        headers.append(("retry-after", str(math.ceil(refused.retry_after_s))))
    if refused.queue is not None:
        wait_s = refused.queue.estimated_wait_s
        error["queue"] = {"place": refused.queue.place, "estimated_wait_s": None if wait_s is None else round(wait_s, 1)}
    error["runtimes"] = [
        {"runtime_id": each.runtime_id, "reason": each.reason.value, "detail": each.detail}
        for each in refused.runtimes[:_MOST_RUNTIMES_NAMED]
    ]
    if len(refused.runtimes) > _MOST_RUNTIMES_NAMED:
        error["runtimes_left_out"] = len(refused.runtimes) - _MOST_RUNTIMES_NAMED
    return json_response(refused.http_status, {"error": error}, headers)
