"""Places from a balancer: what is asked and answered, and what a call does where there is none."""

from __future__ import annotations

import socket
from dataclasses import replace

import anyio
import pytest

from clients.assignments import Assignment, ask_for_place, web_address
from clients.call_events import CallStarted
from clients.refusals import CallFailed, CallRefused
from clients.voice_call import Way, open_call
from runtime.primitives.reasons import EndReason
from tests.balancer.support.running import running
from tests.support.local_runtime import DESK, Enrolled, enrolled_runtime, local_runtime

pytestmark = pytest.mark.anyio


def _server(enrolled: Enrolled) -> str:
    return enrolled.service.url.replace("ws://", "http://").removesuffix("/v1/realtime")


@pytest.mark.parametrize(
    ("server", "http", "ws"),
    [
        ("http://a:1", "http://a:1", "ws://a:1"),
        ("ws://a:1/v1/realtime?x=y", "http://a:1", "ws://a:1"),
        ("https://a", "https://a", "wss://a"),
        ("wss://[::1]:2/", "https://[::1]:2", "wss://[::1]:2"),
    ],
)
def test_an_address_on_either_scheme(server: str, http: str, ws: str) -> None:
    assert (web_address(server, "http"), web_address(server, "ws")) == (http, ws)


@pytest.mark.parametrize("server", ["", "a:1", "ftp://a", "http://"])
def test_what_is_no_address(server: str) -> None:
    with pytest.raises(CallFailed, match="is no server"):
        web_address(server, "ws")


async def test_a_place_and_whose_it_is() -> None:
    async with enrolled_runtime() as enrolled:
        place = await ask_for_place(_server(enrolled), DESK, "mine")
        assert place is not None
        assert (place.session_id, place.runtime_id) == ("mine", enrolled.local.parts.runtime_id)
        assert place.websocket_address == enrolled.local.runtime.http_address
        assert place.grpc_address == enrolled.local.runtime.grpc_address
        assert place.ticket not in repr(place)


async def test_a_runtime_is_no_balancer() -> None:
    async with local_runtime() as local:
        assert await ask_for_place(f"http://{local.runtime.http_address}") is None


async def test_no_place_and_nobody_there() -> None:
    async with running() as service:
        with pytest.raises(CallRefused) as refused:
            await ask_for_place(f"http://{service.host}:{service.port}")
        assert (refused.value.status, refused.value.code) == (503, "no_runtime")
        assert refused.value.retry_after_s > 0
    async with enrolled_runtime() as enrolled:
        with pytest.raises(CallRefused) as unknown:
            await ask_for_place(_server(enrolled), "nobody")
        assert (unknown.value.status, unknown.value.code) == (404, "unknown_agent")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(CallFailed, match="cannot open a call"):
        await ask_for_place(f"http://127.0.0.1:{port}")


@pytest.mark.parametrize("way", Way)
async def test_a_call_goes_straight_to_its_runtime_or_through_the_relay(way: Way) -> None:  # requirement D2
    async with enrolled_runtime(allow_direct="nowhere") as enrolled:
        relayed = enrolled.service.balancer.front.statistics
        async with open_call(_server(enrolled), way=way) as call:
            with anyio.fail_after(20):
                assert isinstance(await anext(call.events()), CallStarted)
            assert relayed()["relayed"] == (0 if way is Way.ASSIGN else 1)
        await enrolled.local.until_ended(EndReason.CLOSED_BY_CALLER)


async def test_a_runtime_out_of_reach_is_reached_by_the_relay(monkeypatch: pytest.MonkeyPatch) -> None:
    """The place that was assigned is the one that the relay takes: nobody else's is used up."""
    async with enrolled_runtime(allow_direct="nowhere", hard_limit=1) as enrolled:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            nowhere = free.getsockname()[1]
        asked = []

        async def place(server: str, agent: str, session_id: str) -> Assignment | None:
            """As where a runtime advertises an address that its callers cannot reach."""
            given = await ask_for_place(server, agent, session_id)
            assert given is not None
            asked.append(given)
            return replace(given, websocket_address=f"127.0.0.1:{nowhere}")

        monkeypatch.setattr("clients.voice_call.ask_for_place", place)
        async with open_call(_server(enrolled)) as call:
            with anyio.fail_after(20):
                assert isinstance(await anext(call.events()), CallStarted)
            assert enrolled.service.balancer.front.statistics()["relayed"] == 1
            assert call.session_id == asked[0].session_id
        assert enrolled.local.ledger.totals.started == 1
        await enrolled.local.until_ended(EndReason.CLOSED_BY_CALLER)
