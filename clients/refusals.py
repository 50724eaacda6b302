"""How a call fails to come about, or breaks."""

from __future__ import annotations

import json
from typing import Any

from websockets.exceptions import InvalidStatus

__all__ = ["CallFailed", "CallRefused", "refusal", "refused"]


class CallFailed(Exception):
    """The server could not be reached, or the connection broke; the text says where and why."""


class CallRefused(CallFailed):
    """The server answered, and gave no place.

    Attributes:
        status: the HTTP status, or the number of the gRPC one.
        code: the stable reason.
        retry_after_s: when to try again; 0: not said.
        runtimes: each runtime's reason, where a balancer answered.
    """

    def __init__(
        self, status: int, code: str, message: str, retry_after_s: float, runtimes: list[dict[str, Any]], shown: str = ""
    ) -> None:
        """`shown`: the status in words; empty: it is HTTP's."""
        self.status = status
        self.code = code
        self.retry_after_s = retry_after_s
        self.runtimes = runtimes
        each = "".join(f"; {runtime['runtime_id']}: {runtime['reason']} ({runtime['detail']})" for runtime in runtimes)
        super().__init__(f"refused with {shown or f'HTTP {status}'} ({code}): {message}{each}")


def refused(error: InvalidStatus) -> CallRefused:
    """What an upgrade was answered instead."""
    response = error.response
    retry_after_s = response.headers.get("Retry-After", "0")
    return refusal(response.status_code, response.reason_phrase, retry_after_s, response.body or b"{}")


def refusal(status: int, phrase: str, retry_after_s: str, document: bytes | bytearray) -> CallRefused:
    """An HTTP answer that gives no place; what is not said in our form is told as it came."""
    code, message, runtimes = "refused", "", []
    try:
        body = json.loads(document)["error"]
        code, message, runtimes = str(body["code"]), str(body["message"]), list(body.get("runtimes", ()))
    except (ValueError, KeyError, TypeError):
        message = f"the server answered {status} {phrase}".rstrip()
    return CallRefused(status, code, message, float(retry_after_s) if retry_after_s.isdigit() else 0.0, runtimes)
