"""Tickets that must open nothing, over raw sockets and gRPC: each is refused by name, and its owner still has the place."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import anyio
import pytest
from grpc import aio

from balancer.placement.placement import Placement
from balancer.placement.reservation import Door
from balancer.routing.request import PlacementRequest
from protos.switchboard.v1 import voice_pb2_grpc
from runtime.primitives.reasons import EndReason
from runtime.wire.signed_tickets import TicketClaims, TicketKey, open_ticket, seal_ticket
from tests.integration.test_bad_input import config
from tests.support.local_runtime import LocalRuntime, enrolled_runtime, local_runtime, until
from tests.support.raw_websocket import raw_caller, raw_connection

pytestmark = pytest.mark.anyio

_HANDSHAKE = (
    "Host: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)


@dataclass(frozen=True)
class Held:
    """A place of tenant acme at a runtime, and the ticket that opens it."""

    local: LocalRuntime
    other: LocalRuntime
    placement: Placement

    @property
    def ticket(self) -> str:
        return self.placement.ticket

    @property
    def key(self) -> TicketKey:
        return next(iter(self.local.parts.ring.keys.values()))

    @property
    def claims(self) -> TicketClaims:
        return open_ticket(self.ticket, self.local.parts.ring.keys)

    def sealed(self, **changes: object) -> str:
        """A ticket that a balancer might have made: its seal is right."""
        return seal_ticket(replace(self.claims, **changes), self.key)  # type: ignore[arg-type]  # fields of the claims


@asynccontextmanager
async def held() -> AsyncIterator[Held]:
    """Whoever is refused within the block, the ticket's owner comes in after it; then both runtimes are empty."""
    async with enrolled_runtime(allow_direct="nowhere", runtime_id="one") as enrolled:
        placer = enrolled.service.balancer.placer
        placement = await placer.place(PlacementRequest("mine", tenant="acme"), Door.ASSIGN)
        async with local_runtime(balancers=(enrolled.service.control,), runtime_id="two", allow_direct="nowhere") as other:
            await until(lambda: bool(other.parts.ring.keys))
            at = Held(enrolled.local, other, placement)
            yield at
            assert at.local.ledger.reserved == 1
            async with raw_caller(at.local.url, headers=f"x-switchboard-ticket: {at.ticket}\r\n") as owner:
                await owner.say(type="session.update", session={})
                await owner.until_contains('"id":"mine"')
                await owner.send(8, (1000).to_bytes(2, "big"))
                assert await owner.until_over() == 1000
            await at.local.until_ended(EndReason.CLOSED_BY_CALLER)
            await at.local.until_empty()
            assert other.ledger.totals.started == 0


async def websocket(local: LocalRuntime, ticket: str, headers: str = "", query: str = "", path: str = "/v1/realtime") -> str:
    """The code of the refusal, which must be a 403 (400 where the connection contradicts itself)."""
    address = local.runtime.http_address
    async with raw_connection(address) as stream:
        presented = f"x-switchboard-ticket: {ticket}\r\n" if ticket else ""
        await stream.send(f"GET {path}{query} HTTP/1.1\r\n{_HANDSHAKE}{presented}{headers}\r\n".encode())
        answer = b""
        with anyio.fail_after(20):
            while not answer.endswith(b"}"):
                answer += await stream.receive()
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith((b"HTTP/1.1 403", b"HTTP/1.1 400")), answer
    return str(json.loads(body)["error"]["code"])


async def binary(local: LocalRuntime, ticket: str, headers: str = "") -> str:
    return await websocket(local, ticket, headers, path="/v1/converse")


async def grpc(local: LocalRuntime, ticket: str, headers: str = "", session_id: str = "") -> str:
    metadata = [("x-switchboard-ticket", ticket)]
    metadata += [(name, value.strip()) for name, _, value in (line.partition(":") for line in headers.splitlines())]
    async with aio.insecure_channel(local.runtime.grpc_address) as channel:
        stream = voice_pb2_grpc.VoiceAgentStub(channel).Converse(metadata=tuple(metadata))
        with anyio.fail_after(20):
            await stream.write(config(session_id))
            assert (await stream.code()).name in ("PERMISSION_DENIED", "INVALID_ARGUMENT")
            trailers = {str(key): str(value) for key, value in await stream.trailing_metadata() or ()}
    return trailers["refusal-reason"]


WIRES = pytest.mark.parametrize("present", [websocket, binary, grpc], ids=["realtime", "binary", "grpc"])
Present = Callable[..., Awaitable[str]]


def _json(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


@WIRES
async def test_a_forged_ticket(present: Present) -> None:
    async with held() as at:
        head, claims, seal = at.ticket.rsplit(".", 2)
        made = {
            "invented": "A" * 32,
            "the place's bare name": at.claims.place,
            "a flipped bit in the claims": f"{head}.{claims[:20]}{'A' if claims[20] != 'A' else 'B'}{claims[21:]}.{seal}",
            "a flipped bit in the seal": f"{head}.{claims}.{'A' if seal[0] != 'A' else 'B'}{seal[1:]}",
            "another key under the same name": seal_ticket(at.claims, TicketKey(at.key.key_id, b"x" * 32)),
            "a key that nobody knows": seal_ticket(at.claims, TicketKey("other", at.key.secret)),
            "cut off": at.ticket[:-1],
            "without its seal": f"{head}.{claims}.",
            "longer": at.ticket + "A",
            "another version": "sb0" + at.ticket[3:],
            "no algorithm": f"{_json({'alg': 'none', 'typ': 'JWT'})}.{claims}.",
            "a web token": f"{_json({'alg': 'HS256'})}.{claims}."
            + base64.urlsafe_b64encode(hmac.digest(at.key.secret, claims.encode(), hashlib.sha256)).rstrip(b"=").decode(),
        }
        for name, ticket in made.items():
            assert (name, await present(at.local, ticket)) == (name, "forged_ticket")


@WIRES
async def test_a_ticket_of_another_time_place_or_life(present: Present) -> None:
    async with held() as at:
        now_ns = at.local.parts.clock.now_ns()
        assert await present(at.local, at.sealed(expires_ns=now_ns)) == "expired_ticket"
        assert await present(at.other, at.ticket) == "wrong_runtime"
        assert await present(at.local, at.sealed(incarnation=at.claims.incarnation - 1)) == "wrong_runtime"
        for claims in ({"place": "gone"}, {"epoch": 7}, {"session_id": "theirs"}, {"tenant": "umbrella"}):
            assert await present(at.local, at.sealed(**claims)) == "used_ticket"  # such a place is not held


@WIRES
async def test_a_ticket_under_another_name(present: Present) -> None:
    async with held() as at:
        assert await present(at.local, at.ticket, "x-switchboard-session: theirs\r\n") == "wrong_session"
        assert await present(at.local, at.ticket, "x-switchboard-tenant: umbrella\r\n") == "wrong_tenant"


async def test_what_else_names_a_session_must_agree_with_the_ticket() -> None:
    async with held() as at:
        assert await websocket(at.local, at.ticket, query="?session_id=theirs") == "wrong_session"
        assert await websocket(at.local, "", query=f"?session_id=theirs&ticket={at.ticket}") == "wrong_session"
        assert await websocket(at.local, at.ticket, "x-switchboard-session: mine\r\n", "?session_id=theirs") == "session_differs"
        assert await websocket(at.local, at.ticket, query="?session_id=mine&session_id=theirs") == "session_differs"
        assert await websocket(at.local, at.ticket, query="?tenant=umbrella") == "wrong_tenant"
        assert await grpc(at.local, at.ticket, session_id="theirs") == "wrong_session"
        assert await grpc(at.local, at.ticket, "x-switchboard-session: mine", "theirs") == "session_differs"


@WIRES
async def test_a_ticket_that_was_used(present: Present) -> None:
    async with enrolled_runtime(allow_direct="nowhere") as enrolled:
        local, placer = enrolled.local, enrolled.service.balancer.placer
        placement = await placer.place(PlacementRequest("mine"), Door.ASSIGN)
        async with raw_caller(local.url, headers=f"x-switchboard-ticket: {placement.ticket}\r\n") as owner:
            assert await present(local, placement.ticket) == "used_ticket"
            await owner.say(type="session.update", session={})
            await owner.until_contains("session.updated")
            assert await present(local, placement.ticket) == "used_ticket"
            await owner.send(8, (1000).to_bytes(2, "big"))
            assert await owner.until_over() == 1000
        await local.until_empty()
        assert await present(local, placement.ticket) == "used_ticket"
        assert local.ledger.totals.started == 1


async def test_a_ticket_that_was_given_back() -> None:
    async with enrolled_runtime(allow_direct="nowhere") as enrolled:
        placer = enrolled.service.balancer.placer
        placement = await placer.place(PlacementRequest("mine"), Door.ASSIGN)
        placer.release(placement)
        await enrolled.local.until_empty()
        assert await websocket(enrolled.local, placement.ticket) == "used_ticket"


async def test_keys_are_rotated_without_a_refused_caller() -> None:  # requirement D2
    """First runtimes learn the new key beside the old one, then the balancer seals with it, then the old one is retired."""
    old, new = "old:" + "o" * 32, "new:" + "n" * 32
    async with enrolled_runtime({"ticket_keys": (old,)}, allow_direct="nowhere", ticket_keys=(old, new)) as enrolled:
        placement = await enrolled.service.balancer.placer.place(PlacementRequest("before"), Door.ASSIGN)
        assert placement.ticket.startswith("sb1.old.")
        await _comes_in(enrolled.local, placement.ticket)
    async with enrolled_runtime({"ticket_keys": (new, old)}, allow_direct="nowhere", ticket_keys=(old,)) as enrolled:
        placement = await enrolled.service.balancer.placer.place(PlacementRequest("behind"), Door.ASSIGN)
        assert placement.ticket.startswith("sb1.old.")  # this runtime does not know the new one yet
        await _comes_in(enrolled.local, placement.ticket)
    async with enrolled_runtime({"ticket_keys": (new, old)}, allow_direct="nowhere", ticket_keys=(new,)) as enrolled:
        placement = await enrolled.service.balancer.placer.place(PlacementRequest("after"), Door.ASSIGN)
        assert placement.ticket.startswith("sb1.new.")
        claims = open_ticket(placement.ticket, enrolled.local.parts.ring.keys)
        retired = seal_ticket(claims, TicketKey("old", b"o" * 32))
        assert await websocket(enrolled.local, retired) == "forged_ticket"
        await _comes_in(enrolled.local, placement.ticket)


async def _comes_in(local: LocalRuntime, ticket: str) -> None:
    async with raw_caller(local.url, headers=f"x-switchboard-ticket: {ticket}\r\n") as caller:
        await caller.say(type="session.update", session={})
        await caller.until_contains("session.updated")
        await caller.send(8, (1000).to_bytes(2, "big"))
        assert await caller.until_over() == 1000
    await local.until_empty()
