"""The relay's side of the upgrade at a runtime: connect, present the ticket, swallow the 101."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Final, cast

import anyio

from balancer.fleet.registration import parse_address
from balancer.front.upgrade import Upgrade, upstream_request
from balancer.front.upgrade_answer import BadAnswer, UpgradeAnswer, read_answer
from balancer.placement.placement import Placement
from runtime.wire.asides import ASIDE_EXTENSION

__all__ = ["DialFailed", "RuntimeConnection", "UpgradeRefused", "dial_runtime"]

_EXTENSION: Final = ASIDE_EXTENSION.encode()
_CALLERS_FAULT: Final = frozenset({400, 403, 404})
_OUR_FAULT: Final = frozenset({"forged_ticket", "expired_ticket", "used_ticket", "wrong_runtime", "unknown_ticket"})
"""The ticket is the balancer's own: another runtime, or another ticket, may do."""
_LONGEST_REFUSAL: Final = 4_096


class DialFailed(Exception):
    """The runtime could not be reached or did not accept the call; `str` says why, fit for a log and a refusal."""


class UpgradeRefused(DialFailed):
    """The runtime says that the request itself is wrong, as any other would: told to the caller instead of tried elsewhere.

    Attributes:
        status: 400, 403 or 404.
        code: what it calls the fault; `message`: what it says of it.
    """

    def __init__(self, status: int, code: str, message: str) -> None:
        self.status = status
        self.code = code
        self.message = message
        super().__init__(f"the upgrade was refused with HTTP {status} {code}")


@dataclass(frozen=True, slots=True)
class RuntimeConnection:
    """Upgraded; its reading is paused until a relay takes it over. `early` are bytes that came right behind the 101."""

    transport: asyncio.Transport
    early: bytes
    has_asides: bool
    """It agreed on the extension for asides."""


class _Handshake(asyncio.Protocol):
    """Collects the answer's head. `answered` gets the early bytes and whether asides were agreed on, or DialFailed."""

    def __init__(self, upgrade: Upgrade, placement: Placement, answered: asyncio.Future[tuple[bytes, bool]]) -> None:
        self._upgrade = upgrade
        self._answered = answered
        self._received = b""
        self._request = upstream_request(upgrade, placement)
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but its class
        self._transport = transport
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if self._answered.done():
            return
        self._received += data
        try:
            answer = read_answer(self._received)
        except BadAnswer:
            self._fail(DialFailed("the answer to the upgrade is not HTTP"))
            return
        if answer is None:
            return
        if answer.status != 101:
            refusal = _refusal(answer)
            if refusal is not None:
                self._fail(refusal)
            return
        agreed = answer.headers.get(b"sec-websocket-extensions")
        if answer.headers.get(b"sec-websocket-accept") != self._upgrade.accept or agreed not in (None, _EXTENSION):
            self._fail(DialFailed("the answer to the upgrade is not valid"))
            return
        assert self._transport is not None
        self._transport.pause_reading()
        self._answered.set_result((answer.early, agreed is not None))

    def connection_lost(self, _error: Exception | None) -> None:
        self._fail(DialFailed("the runtime closed the connection before it answered the upgrade"))

    def _fail(self, failure: DialFailed) -> None:
        if not self._answered.done():
            self._answered.set_exception(failure)


def _refusal(answer: UpgradeAnswer) -> DialFailed | None:
    """None: the rest of its body is still to come."""
    plain = DialFailed(f"the upgrade was answered with HTTP {answer.status}")
    length = answer.headers.get(b"content-length", b"")
    if answer.status not in _CALLERS_FAULT or not length.isdigit() or int(length) > _LONGEST_REFUSAL:
        return plain
    if len(answer.early) < int(length):
        return None
    try:
        error = json.loads(answer.early)["error"]
        code, message = str(error["code"]), str(error["message"])
    except (ValueError, LookupError, TypeError):
        return plain
    return plain if code in _OUR_FAULT else UpgradeRefused(answer.status, code, message)


async def dial_runtime(upgrade: Upgrade, placement: Placement, timeout_s: float) -> RuntimeConnection:
    """Raises DialFailed within `timeout_s`. Cancelled or failed, it leaves no connection open."""
    loop = asyncio.get_running_loop()
    address = parse_address(placement.websocket_address)
    assert address is not None  # checked at enrolment
    answered: asyncio.Future[tuple[bytes, bool]] = loop.create_future()
    transport: asyncio.Transport | None = None
    answer: tuple[bytes, bool] | None = None
    try:
        with anyio.fail_after(timeout_s):
            transport, _ = await loop.create_connection(lambda: _Handshake(upgrade, placement, answered), *address)
            answer = await answered
    except TimeoutError:
        raise DialFailed(f"no answer to the upgrade within {timeout_s:g} s") from None
    except OSError as error:
        raise DialFailed(f"the connection failed: {error.strerror or type(error).__name__}") from None
    finally:
        if answer is None:
            if transport is not None:
                transport.abort()
            if answered.done() and not answered.cancelled():
                answered.exception()  # seen: whoever raised above has told it
            answered.cancel()
    return RuntimeConnection(transport, *answer)
