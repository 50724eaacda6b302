"""Asking a balancer for a place, so that the call itself goes to the runtime and through no relay."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from email.message import Message
from typing import Any, Final
from urllib.parse import urlsplit

import anyio

from clients.refusals import CallFailed, refusal

__all__ = ["Assignment", "ask_for_place", "web_address"]

_ANSWER_S: Final = 15.0
_LONGEST_ANSWER_BYTES: Final = 65_536
_NO_BALANCER: Final = frozenset({404, 405})


@dataclass(frozen=True, slots=True)
class Assignment:
    """Where to connect, and what opens the place there, once and within `ticket_ttl_s`.

    Attributes:
        websocket_address, grpc_address: host:port of the runtime.
    """

    session_id: str
    runtime_id: str
    websocket_address: str
    grpc_address: str
    ticket: str = field(repr=False)
    ticket_ttl_s: float


def web_address(server: str, scheme: str) -> str:
    """`server` (http, https, ws or wss, any path) as scheme://HOST:PORT; `scheme` is http or ws, and TLS is kept.

    >>> web_address("wss://calls.example/v1/realtime", "http")
    'https://calls.example'
    """
    parts = urlsplit(server)
    if parts.scheme not in ("http", "https", "ws", "wss") or not parts.netloc:
        raise CallFailed(f"{server!r} is no server; expected http://HOST:PORT or ws://HOST:PORT")
    return f"{scheme}{'s' if parts.scheme in ('https', 'wss') else ''}://{parts.netloc}"


async def ask_for_place(server: str, agent: str = "", session_id: str = "") -> Assignment | None:
    """A place, or None where the server is no balancer (a runtime is called directly, without one).

    Raises CallRefused where there is no place, CallFailed where nobody answers.
    """
    needs = {key: value for key, value in (("agent", agent), ("session_id", session_id)) if value}
    request = urllib.request.Request(
        f"{web_address(server, 'http')}/v1/assignments", json.dumps(needs).encode(), {"Content-Type": "application/json"}
    )
    status, headers, body = await anyio.to_thread.run_sync(_answer, request, abandon_on_cancel=True)
    if status in _NO_BALANCER and _code(body) in ("", "not_found", "method_not_allowed"):
        return None
    if status != 201:
        raise refusal(status, "", headers.get("retry-after", "0"), body)
    try:
        given = json.loads(body)
        address = urlsplit(given["websocket_url"]).netloc
        return Assignment(
            given["session_id"],
            given["runtime_id"],
            address,
            given["grpc_address"],
            given["ticket"],
            float(given["ticket_ttl_s"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise CallFailed(f"{server} answered an assignment that this client does not understand") from error


def _answer(request: urllib.request.Request) -> tuple[int, dict[str, str], bytes]:
    """Blocks. Environment proxies are not used: a call is not a web page."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=_ANSWER_S) as answer:
            return answer.status, _lower(answer.headers), answer.read(_LONGEST_ANSWER_BYTES)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, _lower(error.headers), error.read(_LONGEST_ANSWER_BYTES)
    except (OSError, ValueError) as error:
        raise CallFailed(f"cannot open a call at {request.full_url}: {error}") from error


def _lower(headers: Message) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _code(body: bytes) -> str:
    try:
        document: Any = json.loads(body)
        return str(document["error"]["code"])
    except (ValueError, KeyError, TypeError):
        return ""
