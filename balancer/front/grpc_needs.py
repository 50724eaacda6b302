"""What a gRPC caller asks for, from its metadata and its configuration, and the upgrade that asks a runtime for the same. Pure.

A direct caller names agent and session in `config`, and so may this one; metadata says the rest, as the query does on WebSocket.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from google.protobuf.message import DecodeError

from balancer.front.needs import needs_from_values
from balancer.front.responses import HttpError
from balancer.front.returns import Return, resume_key_of, return_of
from balancer.front.upgrade import Upgrade, accept_of
from balancer.routing.request import PlacementRequest
from protos.switchboard.v1 import voice_pb2 as pb
from runtime.wire.headers import RECEIVED_HEADER, RESUME_KEY_HEADER, SESSION_HEADER, TENANT_HEADER, TICKET_HEADER

__all__ = ["Asked", "asked_by", "returning", "upgrade_of"]

_OURS: Final = "x-switchboard-"
_FIELDS: Final = {
    SESSION_HEADER: "session_id",
    TENANT_HEADER: "tenant",
    "x-switchboard-agent": "agent",
    "x-switchboard-abilities": "abilities",
    "x-switchboard-region": "region",
    "x-switchboard-min-version": "min_version",
    "x-switchboard-context-window": "context_window",
    "x-switchboard-priority": "priority",
}
_UNREAD: Final = frozenset({TICKET_HEADER})
"""It is for a runtime; a place is asked for here all the same, and by its session id it is the one that is held."""
_RESUMPTION: Final = {RESUME_KEY_HEADER: "resume_key", RECEIVED_HEADER: "received"}
_PASSED: Final = frozenset({TENANT_HEADER, "authorization", "traceparent", "tracestate"})
_NO_MESSAGE: Final = "the bytes are no ConverseRequest; expected a protobuf message of switchboard.v1"
_PATH: Final = "/v1/converse"
_KEY_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Asked:
    """`passed`: the header lines that go on to the runtime, each with its CRLF. `resume_key`: empty where none was given."""

    request: PlacementRequest
    passed: bytes
    resume_key: str = ""


def asked_by(metadata: Iterable[tuple[str, str | bytes]], first: bytes, new_session_id: Callable[[], str]) -> Asked:
    """`first`: the caller's first message. Raises HttpError 400, which names what is wrong."""
    try:
        message = pb.ConverseRequest.FromString(first)
    except DecodeError:
        raise HttpError(400, "bad_field", _NO_MESSAGE) from None
    if message.WhichOneof("payload") != "config":
        raise HttpError(400, "bad_field", "the first message has no config")
    texts = _texts(metadata)
    values = _fields(texts)
    _agree(values, "session_id", message.config.session_id, "session_differs", SESSION_HEADER)
    _agree(values, "agent", message.config.agent, "bad_field", "x-switchboard-agent")
    passed = [b"%b: %b\r\n" % (name.encode(), value.encode()) for name, value in texts if name in _PASSED]
    return Asked(needs_from_values(values, new_session_id), b"".join(passed), resume_key_of(_resumption(texts)))


def returning(metadata: Iterable[tuple[str, str | bytes]]) -> Return | None:
    """Who comes back to a call instead of beginning one. Raises HttpError 400."""
    texts = _texts(metadata)
    resumption = _resumption(texts)
    return return_of(resumption, needs_from_values(_fields(texts), str), _PATH) if resumption else None


def _texts(metadata: Iterable[tuple[str, str | bytes]]) -> list[tuple[str, str]]:
    return [(name, value) for name, value in metadata if isinstance(value, str)]


def _fields(metadata: Iterable[tuple[str, str]]) -> dict[str, object]:
    values: dict[str, object] = {}
    for name, value in metadata:
        if name in _FIELDS:
            if values.setdefault(_FIELDS[name], value) != value:
                raise HttpError(400, "bad_field", f"the metadata {name} is given twice")
        elif name.startswith(_OURS) and name not in _UNREAD and name not in _RESUMPTION:
            raise HttpError(400, "bad_field", f"unknown metadata {name[:64]!r}; allowed: {', '.join((*_FIELDS, *_RESUMPTION))}")
    return values


def _resumption(metadata: Iterable[tuple[str, str]]) -> str:
    """As it stands in the query of a WebSocket caller; empty: there is none."""
    return urlencode([(_RESUMPTION[name], value) for name, value in metadata if name in _RESUMPTION])


def upgrade_of(asked: Asked, nonce: bytes) -> Upgrade:
    """The caller's wish as an upgrade to our own messages over WebSocket. `nonce`: 16 bytes, new for each call."""
    key = base64.b64encode(nonce[:_KEY_BYTES])
    query = urlencode({"model": asked.request.agent}) if asked.request.agent else ""
    lines = b"Host: switchboard\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %b\r\n" % key
    return Upgrade(
        target=f"{_PATH}{'?' if query else ''}{query}".encode(),
        passed=lines + asked.passed,
        accept=accept_of(key),
        subprotocol=None,
        session_header=None,
    )


def _agree(values: dict[str, object], field: str, configured: str, code: str, name: str) -> None:
    if configured and values.setdefault(field, configured) != configured:
        raise HttpError(400, code, f"{name} and config.{field} differ")
