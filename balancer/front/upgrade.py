"""The WebSocket upgrade as values: what the caller asked, what the runtime is asked, what the caller is answered.

The caller's upgrade is checked strictly, because two servers stand behind each other here: whatever they could read differently
(bodies, repeated headers, transfer encodings) is refused. RFC 6455 section 4.2.1, RFC 9110 section 7.6.1.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from balancer.front.request_head import RequestHead
from balancer.front.responses import HttpError
from balancer.placement.placement import Placement
from runtime.wire.asides import ASIDE_EXTENSION
from runtime.wire.headers import EPOCH_HEADER, RUNTIME_HEADER, SESSION_HEADER, TICKET_HEADER

__all__ = ["Upgrade", "accept_of", "check_upgrade", "switching_response", "upstream_request"]

_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_SUBPROTOCOLS: Final = {b"/v1/realtime": b"realtime", b"/v1/converse": b"switchboard.v1"}
"""What each wire may be called in the answer. Another offered token may be a key and is never echoed."""
_ONCE: Final = (
    b"host", b"upgrade", b"sec-websocket-key", b"sec-websocket-version", b"origin", b"authorization", SESSION_HEADER.encode(),
)  # fmt: skip
_HOP_BY_HOP: Final = frozenset({
    b"connection", b"keep-alive", b"proxy-connection", b"proxy-authenticate", b"proxy-authorization", b"te", b"trailer",
    b"transfer-encoding", b"upgrade",
})  # fmt: skip
_OURS: Final = frozenset(name.encode() for name in (TICKET_HEADER, SESSION_HEADER, EPOCH_HEADER, RUNTIME_HEADER))
_OUR_LINES: Final = (
    f"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Extensions: {ASIDE_EXTENSION}\r\n"
    f"{TICKET_HEADER}: %b\r\n{SESSION_HEADER}: %b\r\n{EPOCH_HEADER}: %d\r\n\r\n"
).encode()
"""Of the request to a runtime, behind the caller's: ticket, session, epoch."""
_NOT_PASSED: Final = _HOP_BY_HOP | _OURS | {b"sec-websocket-extensions", b"content-length"}


@dataclass(frozen=True, slots=True)
class Upgrade:
    """A caller's valid upgrade. `passed`: the lines of its end-to-end headers, which pass unchanged, each with its CRLF.
    `accept`: what a server that takes it answers to its key."""

    target: bytes
    passed: bytes
    accept: bytes
    subprotocol: str | None
    session_header: str | None

    @property
    def path(self) -> str:
        return self.target.partition(b"?")[0].decode("ascii")

    @property
    def query(self) -> str:
        return self.target.partition(b"?")[2].decode("ascii")


def accept_of(key: bytes) -> bytes:
    """RFC 6455 section 4.2.2.

    >>> accept_of(b"dGhlIHNhbXBsZSBub25jZQ==")
    b's3pPLMBiTxaQ9kYGzzhZRbK+xOo='
    """
    return base64.b64encode(hashlib.sha1(key + _GUID).digest())


def check_upgrade(request: RequestHead) -> Upgrade:
    """Raises HttpError: 400, 405 or 426."""
    values = request.values
    if request.method != b"GET":
        raise HttpError(405, "method_not_allowed", "an upgrade is a GET", [("allow", "GET")])
    if request.version != b"1.1":
        raise HttpError(400, "bad_upgrade", "an upgrade is HTTP/1.1")
    for name in _ONCE:
        if len(values.get(name, ())) > 1:
            raise HttpError(400, "bad_upgrade", f"{name.decode()} is given twice")
    if b"content-length" in values or b"transfer-encoding" in values:
        raise HttpError(400, "bad_upgrade", "an upgrade has no body")
    listed = _words(values, b"connection")
    if _words(values, b"upgrade") != [b"websocket"] or b"upgrade" not in listed:
        raise HttpError(426, "upgrade_required", "this address speaks WebSocket", [("upgrade", "websocket")])
    if values.get(b"sec-websocket-version") != [b"13"]:
        raise HttpError(426, "bad_version", "Sec-WebSocket-Version must be 13", [("sec-websocket-version", "13")])
    key = values.get(b"sec-websocket-key", [b""])[0]
    try:
        is_key = len(base64.b64decode(key, validate=True)) == 16
    except (binascii.Error, ValueError):
        is_key = False
    if not is_key:
        raise HttpError(400, "bad_upgrade", "Sec-WebSocket-Key is not 16 bytes of base64")
    needed = sorted(name.decode("latin-1") for name in listed if name == b"host" or name.startswith(b"sec-websocket-"))
    if needed:
        raise HttpError(400, "bad_upgrade", f"Connection lists {needed[0]}, which an upgrade needs end to end")
    session = values.get(SESSION_HEADER.encode())
    wanted = _SUBPROTOCOLS.get(request.target.partition(b"?")[0])
    stays = _NOT_PASSED.union(listed)
    passed = [b"%b: %b\r\n" % field for field in request.fields if field[0].lower() not in stays]
    is_offered = wanted is not None and wanted in _words(values, b"sec-websocket-protocol", lower=False)
    return Upgrade(
        target=request.target,
        passed=b"".join(passed),
        accept=accept_of(key),
        subprotocol=wanted.decode() if wanted is not None and is_offered else None,
        session_header=None if session is None else session[0].decode("latin-1"),
    )


def upstream_request(upgrade: Upgrade, placement: Placement) -> bytes:
    """The same request to the runtime, with the place it may take. Of extensions it is offered ours alone: the caller's cannot be
    kept across runtimes. Target and headers were checked when they were read, so none can bring a line of its own."""
    ours = (placement.ticket.encode(), placement.session_id.encode(), placement.epoch)
    return b"GET %b HTTP/1.1\r\n%b%b" % (upgrade.target, upgrade.passed, _OUR_LINES % ours)


def switching_response(upgrade: Upgrade, session_id: str, runtime_id: str = "") -> bytes:
    """Our own 101. Without `runtime_id`: it is not known yet."""
    lines = [
        "HTTP/1.1 101 Switching Protocols",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Accept: {upgrade.accept.decode()}",
    ]
    if upgrade.subprotocol is not None:
        lines.append(f"Sec-WebSocket-Protocol: {upgrade.subprotocol}")
    lines.append(f"{SESSION_HEADER}: {session_id}")
    if runtime_id:
        lines.append(f"{RUNTIME_HEADER}: {runtime_id}")
    lines += ["", ""]
    return "\r\n".join(lines).encode("ascii")


def _words(values: Mapping[bytes, Sequence[bytes]], name: bytes, lower: bool = True) -> list[bytes]:
    text = b",".join(values.get(name, ()))
    return [word for part in (text.lower() if lower else text).split(b",") if (word := part.strip(b" \t"))]
