"""A caller of the relay loses its connection and comes back to its call: all of it comes, and once. (requirement C4)"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.balancer.support.aside_runtime import AsideRuntime
from tests.balancer.support.fake_runtime import FakeRuntime
from tests.balancer.support.running import Running, fleet_of, until

pytestmark = pytest.mark.anyio

_KEY = "k" * 22


class _Counter:
    """A runtime that answers each message with the next forty numbers: more than a caller reads before it is gone again."""

    def __init__(self) -> None:
        self.said = 0
        self.heard: list[str] = []

    async def __call__(self, _runtime: FakeRuntime, connection: ServerConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            async for message in connection:
                self.heard.append(str(message))
                for _ in range(40):
                    self.said += 1
                    await connection.send(str(self.said))


@contextlib.asynccontextmanager
async def _dialled(service: Running, received: int | str | None = None, **query: Any) -> AsyncIterator[ClientConnection]:
    asked = {"session_id": "call-1", "resume_key": _KEY, **query}
    if received is not None:
        asked["received"] = str(received)
    path = asked.pop("path", "/v1/realtime")
    url = service.url.replace("/v1/realtime", path) + "?" + "&".join(f"{name}={value}" for name, value in asked.items() if value)
    async with connect(url, ping_interval=None, max_queue=None) as client:
        yield client


async def _rest(client: ClientConnection) -> AsyncIterator[str]:
    with contextlib.suppress(ConnectionClosed):
        while True:
            yield str(await client.recv())


async def _resumed(client: ClientConnection) -> int:
    word = json.loads(await client.recv())
    assert word["type"] == "switchboard.resumed"
    return int(word["received"])


async def _refusal(service: Running, received: int | str | None = 0, **query: Any) -> tuple[int, str]:
    with pytest.raises(InvalidStatus) as refused:
        async with _dialled(service, received, **query):
            pass
    return refused.value.response.status_code, json.loads(refused.value.response.body)["error"]["code"]


async def test_a_caller_that_comes_back_again_and_again_has_all_of_it_once() -> None:
    counter = _Counter()
    runtime = FakeRuntime("r1", handler=counter)
    got: list[str] = []
    sent = 0
    async with fleet_of(runtime) as service:
        for times in range(6):
            async with _dialled(service, len(got) if times else None) as client:
                if times:
                    here = await _resumed(client)
                    assert here <= sent
                    sent = here
                for _ in range(3):
                    sent += 1
                    await client.send(f"message {sent}")
                for _ in range(20):
                    got.append(str(await client.recv()))
                client.transport.abort()  # what it was sent and had not read is lost with it
            await until(lambda: service.balancer.front.statistics()["away"] == 1)
            assert service.balancer.front.statistics()["relayed"] == 1
        async with _dialled(service, len(got)) as client:
            here = await _resumed(client)
            for number in range(here + 1, sent + 1):
                await client.send(f"message {number}")
            got += [str(await client.recv()) for _ in range(40 * sent - len(got))]
            assert got == [str(number) for number in range(1, len(got) + 1)]
            await until(lambda: counter.heard == [f"message {number}" for number in range(1, sent + 1)])
            await client.close()
            assert client.close_code == 1000
        assert len(runtime.connections) == 1
        assert runtime.closes == [(1000, "")]
        assert service.balancer.front.statistics()["returns"] == 6


async def test_a_connection_that_only_seemed_to_be_there_is_left() -> None:
    counter = _Counter()
    async with fleet_of(FakeRuntime("r1", handler=counter)) as service, _dialled(service) as lost:
        await lost.send("hello")
        for _ in range(5):
            await lost.recv()
        async with _dialled(service, 5) as client:
            assert await _resumed(client) == 1
            assert await client.recv() == "6"
            with anyio.fail_after(20):
                async for _ in _rest(lost):
                    pass
            assert lost.close_code == 1006
            await client.send("again")
            await until(lambda: counter.heard == ["hello", "again"])


async def test_half_a_frame_of_the_lost_connection_is_forgotten() -> None:
    async with fleet_of(FakeRuntime("r1")) as service:
        async with _dialled(service) as client:
            await client.send("one")
            await client.recv()
            client.transport.write(b"\x81\x8a\0\0\0\0half")
            await anyio.wait_all_tasks_blocked()
            client.transport.abort()
        async with _dialled(service, 1) as client:
            assert await _resumed(client) == 1
            await client.send("two")
            assert await client.recv() == "two"


async def test_half_a_message_cannot_be_taken_back_and_ends_the_call() -> None:
    runtime = FakeRuntime("r1")
    async with fleet_of(runtime) as service:
        async with _dialled(service) as client:
            client.transport.write(b"\x01\x82\0\0\0\0ab")  # a fragment, more to follow
            await until(lambda: bool(runtime.connections))
            await (await client.ping())
            client.transport.abort()
        await until(lambda: runtime.closes == [(None, None)])
        assert await _refusal(service) == (403, "session_over")


async def test_only_the_key_the_tenant_and_the_place_open_it() -> None:
    async with fleet_of(FakeRuntime("r1", handler=_Counter())) as service:
        async with _dialled(service, tenant="acme") as client:
            await client.send("hello")
            await client.recv()
            for changed in (
                {"resume_key": "K" * 22, "tenant": "acme"}, {"tenant": "other"}, {"tenant": ""},
                {"session_id": "call-2", "tenant": "acme"}, {"session_id": "", "tenant": "acme"},
                {"path": "/v1/converse", "tenant": "acme"}, {"path": "/v1/twilio", "tenant": "acme"},
            ):  # fmt: skip
                assert await _refusal(service, 0, **changed) == (403, "session_over")
            assert await _refusal(service, 10**6, tenant="acme") == (403, "missed_too_much")
            for bad in ("-1", "x", "9" * 17, "1&received=1"):
                assert await _refusal(service, bad, tenant="acme") == (400, "bad_field")
            for bad in ("short", "k" * 129, _KEY + "&resume_key=" + _KEY):
                assert await _refusal(service, 0, tenant="acme", resume_key=bad) == (400, "bad_field")
            await client.recv()  # none of it has hurt
        async with connect(service.url + "?session_id=plain", max_queue=None) as plain:
            await plain.send("hello")
            await plain.recv()
            assert await _refusal(service, 0, session_id="plain") == (403, "session_over")


async def test_who_comes_back_has_a_seat_however_full_it_is() -> None:
    async with fleet_of(FakeRuntime("r1"), max_connections=2) as service, connect(service.url) as other:
        await other.send("x")
        async with _dialled(service) as client:
            await client.send("x")
            await client.recv()
            client.transport.abort()
        await until(lambda: service.balancer.front.statistics()["away"] == 1)
        assert await _refusal(service, None, session_id="new", resume_key="") == (503, "too_many_connections")
        assert await _refusal(service, 0, session_id="new") == (403, "session_over")
        async with _dialled(service, 1) as client:
            assert await _resumed(client) == 1
            await client.send("y")
            assert await client.recv() == "y"


async def test_who_does_not_come_back_in_time_is_lost() -> None:
    runtime = FakeRuntime("r1")
    async with fleet_of(runtime, resume_grace_s=0.3) as service:
        async with _dialled(service) as client:
            await client.send("x")
            await client.recv()
            client.transport.abort()
        await until(lambda: runtime.closes == [(None, None)])
        await until(lambda: service.balancer.front.statistics()["connections"] == 0)
        assert await _refusal(service) == (403, "session_over")
        await until(lambda: service.balancer.fleet.books.totals.ended == {"connection_lost": 1})


@pytest.mark.parametrize("bound", ["resume_grace_s", "resume_most_away"])
async def test_where_nobody_is_waited_for_a_lost_caller_is_lost_at_once(bound: str) -> None:
    runtime = FakeRuntime("r1")
    async with fleet_of(runtime, **{bound: 0}) as service:
        async with _dialled(service) as client:
            await client.send("x")
            await client.recv()
            client.transport.abort()
        await until(lambda: runtime.closes == [(None, None)])


async def test_a_goodbye_is_one() -> None:
    runtime = FakeRuntime("r1")
    async with fleet_of(runtime) as service:
        async with _dialled(service) as client:
            await client.send("x")
            await client.recv()
        await until(lambda: runtime.closes == [(1000, "")])
        assert await _refusal(service) == (403, "session_over")


async def test_what_is_said_to_a_caller_who_is_away_is_bounded_and_then_the_runtime_waits() -> None:
    counter = _Loud()
    async with fleet_of(FakeRuntime("r1", handler=counter)) as service:
        async with _dialled(service) as client:
            await client.recv()
            client.transport.abort()
        await until(lambda: service.balancer.front.statistics()["paused"] == 1, 20)
        relay = service.balancer.front.calls.get("call-1")
        assert relay is not None
        assert relay.is_awaiting
        async with _dialled(service, 1) as client:
            await _resumed(client)
            for number in range(2, 200):
                assert str(await client.recv()).startswith(f"{number}:")


async def test_a_caller_that_comes_back_again_and_again_is_held_back_by_a_runtime_that_does_not_read() -> None:
    async def deaf(_runtime: FakeRuntime, connection: ServerConnection) -> None:
        connection.transport.pause_reading()
        await connection.wait_closed()

    async with fleet_of(FakeRuntime("r1", handler=deaf)) as service:
        statistics = service.balancer.front.statistics
        for times in range(6):
            async with _dialled(service, 0 if times else None) as client:
                with anyio.move_on_after(0.5):
                    while True:
                        await client.send("x" * 100_000)
                client.transport.abort()  # which nobody sees who does not read
        assert statistics()["buffered_bytes"] < 1_500_000  # a frame, a read and the mark


async def test_a_caller_that_comes_back_and_does_not_read_holds_back_the_runtime() -> None:
    async with fleet_of(FakeRuntime("r1", handler=_Loud())) as service:
        async with _dialled(service) as client:
            await client.recv()
            client.transport.abort()
        await until(lambda: service.balancer.front.statistics()["paused"] == 1, 20)
        relay = service.balancer.front.calls.get("call-1")
        assert relay is not None
        async with _dialled(service, 1) as client:
            client.transport.pause_reading()
            await until(lambda: relay.caller.paused_ns is not None, 20)
            assert not relay.runtime.transport.is_reading()
            client.transport.abort()


@pytest.mark.parametrize("bounds", [{"adopt_timeout_ms": 300}, {"resume_grace_s": 0.3}], ids=["no capacity", "not in time"])
async def test_a_call_that_both_sides_have_left_ends(bounds: dict[str, Any]) -> None:
    runtime = AsideRuntime("r1")
    async with fleet_of(runtime, **bounds) as service:
        front = service.balancer.front
        async with _dialled(service) as client:
            await client.send("a")
            await client.recv()
            client.transport.abort()
        await until(lambda: front.statistics()["away"] == 1)
        runtime.refuse_upgrade = True
        runtime.connections[0].transport.abort()
        await until(lambda: front.statistics()["connections"] == 0)
        assert await _refusal(service, 1) == (403, "session_over")
        runtime.refuse_upgrade = False
        async with _dialled(service):  # its name is free again
            pass


class _Loud:
    async def __call__(self, _runtime: FakeRuntime, connection: ServerConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            for number in range(1, 10**6):
                await connection.send(f"{number}:" + "x" * 60_000)


async def test_a_call_moves_while_its_caller_is_away() -> None:  # with C3
    first, second = AsideRuntime("r1"), AsideRuntime("r2")
    async with fleet_of(first, second) as service:
        async with _dialled(service) as client:
            await client.send("a")
            assert await client.recv() == "1:a"
            client.transport.abort()
        await until(lambda: service.balancer.front.statistics()["away"] == 1)
        serving, other = (first, second) if first.connections else (second, first)
        serving.connections[0].transport.abort()
        await until(lambda: len(other.connections) == 1)
        async with _dialled(service, 1) as client:
            assert await _resumed(client) == 1
            await client.send("b")
            assert await client.recv() == "2:b"
