"""A telephone is accepted, heard, and then placed: by a real client, over the public port. (requirements D1, V4)"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection

from protos.switchboard.v1 import placement_pb2
from runtime.wire.websocket_messages import read_messages
from tests.balancer.support.fake_runtime import FakeRuntime
from tests.balancer.support.running import Running, fleet_of, until
from tests.support.twilio import start_message

pytestmark = pytest.mark.anyio

_CONNECTED = '{"event": "connected"}'


def _start(call: str = "CA1", **parameters: str) -> str:
    return start_message("MZ1", call, parameters)


@contextlib.asynccontextmanager
async def _dialled(service: Running, path: str = "/v1/twilio/desk", **options: Any) -> AsyncIterator[ClientConnection]:
    async with connect(service.url.replace("/v1/realtime", path), **options) as client:
        yield client


async def _close_of(client: ClientConnection) -> tuple[int, str]:
    await client.wait_closed()
    assert client.close_code is not None
    return client.close_code, client.close_reason or ""


async def test_it_is_placed_by_what_its_start_says_and_not_before() -> None:
    runtime = FakeRuntime("r1")
    async with fleet_of(runtime) as service, _dialled(service) as client:
        assert client.response is not None
        session_id = client.response.headers["x-switchboard-session"]
        assert "x-switchboard-runtime" not in client.response.headers  # nobody knows yet
        await client.send(_CONNECTED)
        await client.ping()
        start = _start(switchboard_priority="high", switchboard_abilities="tools", switchboard_tenant="acme", table="7")
        assert not runtime.reserved
        await client.send([start[:10], start[10:]])
        assert [await client.recv(), await client.recv()] == [_CONNECTED, start]  # the runtime heard all of it
        (asked,) = runtime.reserved
        assert (asked.session_id, asked.tenant, asked.needs.agent) == (session_id, "acme", "desk")
        assert asked.priority == placement_pb2.PRIORITY_HIGH
        assert list(asked.needs.abilities) == ["tools"]
        await client.send("more")
        assert await client.recv() == "more"


async def test_a_start_is_never_so_long() -> None:
    async with fleet_of(FakeRuntime("r1")) as service, _dialled(service) as client:
        await client.send("x" * 65_537)
        code, reason = await _close_of(client)
        assert (code, reason) == (1009, "a frame of 65537 bytes; at most 65536")


async def test_what_comes_while_it_waits_for_its_place_is_bounded_and_not_lost() -> None:
    runtime = FakeRuntime("r1", stays_silent=True)
    async with fleet_of(runtime, reserve_timeout_ms=5000) as service, _dialled(service, max_size=None) as client:
        await client.send(_CONNECTED)
        await client.send(_start())
        await until(lambda: len(runtime.reserved) == 1)
        for _ in range(10):
            await client.send("x" * 100_000)
        runtime.answer_now.set()
        heard = [await client.recv() for _ in range(12)]
        assert [len(message) for message in heard[2:]] == [100_000] * 10


async def test_a_message_of_many_fragments_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def counted(frames: bytes) -> tuple[list[bytes], bytes]:
        read.append(len(frames))
        return read_messages(frames)

    monkeypatch.setattr("balancer.front.opening.read_messages", counted)
    async with fleet_of(FakeRuntime("r1")) as service, _dialled(service) as client:
        start = _start()
        await client.send([start[at : at + 1] for at in range(len(start))])
        assert await client.recv() == start
    assert len(read) == 1


async def test_a_need_that_nobody_can_meet_is_a_close() -> None:
    async with fleet_of(FakeRuntime("r1")) as service:
        for parameters, expected in (
            ({"switchboard_priority": "urgent"}, "1008 bad_field: priority is not valid; allowed: low | normal | high"),
            ({"switchboard_agent": "x"}, "1008 bad_field: unknown parameter 'switchboard_agent'; allowed: "),
            ({"switchboard_min_version": "9"}, "1008 unsuitable"),
        ):
            async with _dialled(service) as client:
                await client.send(_start(**parameters))
                code, reason = await _close_of(client)
                assert f"{code} {reason}".startswith(expected)
        await until(lambda: service.balancer.front.statistics()["connections"] == 0)


async def test_a_full_fleet_is_a_close_that_says_so() -> None:
    async with (
        fleet_of(FakeRuntime("r1", refuse_with=placement_pb2.REFUSAL_REASON_LIMIT)) as service,
        _dialled(service) as client,
    ):
        await client.send(_start())
        code, reason = await _close_of(client)
        assert code == 1013
        assert reason.startswith("no_capacity")


async def test_a_runtime_that_refuses_the_upgrade_is_tried_no_more_than_its_turn() -> None:
    async with fleet_of(FakeRuntime("r1", refuse_upgrade=True)) as service, _dialled(service) as client:
        await client.send(_start())
        assert (await _close_of(client))[0] == 1013


async def test_who_says_nothing_is_closed_in_time() -> None:
    runtime = FakeRuntime("r1")
    async with fleet_of(runtime, head_timeout_ms=200) as service, _dialled(service) as client:
        await client.send(_CONNECTED)
        assert await _close_of(client) == (1008, "no start came")
        assert not runtime.reserved
        await until(lambda: service.balancer.front.statistics()["connections"] == 0)


async def test_who_closes_or_breaks_the_protocol_before_its_start_is_answered() -> None:
    runtime = FakeRuntime("r1")
    async with fleet_of(runtime) as service:
        async with _dialled(service) as client:
            await client.close()
            assert client.close_code == 1000
        async with _dialled(service) as client:
            client.transport.write(b"\x81\x02no")  # not masked
            assert await _close_of(client) == (1002, "a client's frame is not masked")
        async with _dialled(service) as client:
            client.transport.abort()
        await until(lambda: service.balancer.front.statistics()["connections"] == 0)
        assert not runtime.reserved


async def test_who_leaves_while_it_waits_gives_its_place_back() -> None:
    runtime = FakeRuntime("r1", hold_upgrade=True)
    async with fleet_of(runtime) as service, _dialled(service) as client:
        await client.send(_start())
        await runtime.held.wait()
        client.transport.abort()
        await until(lambda: len(runtime.released) == 1)
        await until(lambda: service.balancer.front.statistics()["connections"] == 0)


async def test_one_telephone_call_has_one_stream() -> None:  # two streams of a call: two agents would talk to one caller
    runtime = FakeRuntime("r1")
    async with fleet_of(runtime) as service, _dialled(service) as other, _dialled(service) as first, _dialled(service) as second:
        for client, call in ((other, "CA2"), (first, "CA1"), (second, "CA1")):
            await client.send(_start(call))
            await client.recv()
        assert await _close_of(first) == (1000, "a newer stream of the call is here")
        await until(lambda: runtime.closes == [(1000, "a newer stream of the call is here")])
        for client in (other, second):
            await client.send("on")
            assert await client.recv() == "on"


async def test_streams_of_two_tenants_do_not_meet() -> None:
    async with fleet_of(FakeRuntime("r1")) as service, _dialled(service) as one, _dialled(service) as two:
        for client, tenant in ((one, "a"), (two, "b")):
            await client.send(_start(switchboard_tenant=tenant))
            await client.recv()
        for client in (one, two):
            await client.send("on")
            assert await client.recv() == "on"


async def test_a_runtime_that_does_not_echo_is_not_needed_to_hear_a_close(anyio_backend: str) -> None:
    async def deaf(_runtime: FakeRuntime, connection: ServerConnection) -> None:
        await connection.wait_closed()

    async with fleet_of(FakeRuntime("r1", handler=deaf)) as service, _dialled(service) as client:
        await client.send(_start())
        await until(lambda: service.balancer.front.statistics()["relayed"] == 1)
        await client.close()
        assert client.close_code == 1000
