"""The public port end to end on loopback: a real WebSocket client, the relay, a small runtime."""

from __future__ import annotations

import contextlib
import json

import anyio
import anyio.lowlevel
import httpx
import pytest
import websockets
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection

from protos.switchboard.v1 import placement_pb2
from tests.balancer.support.fake_runtime import FakeRuntime
from tests.balancer.support.running import Running, fleet_of, until

pytestmark = pytest.mark.anyio

_UPGRADE_TEXT = (
    b"GET /v1/realtime HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
_ASSIGN_TEXT = b"POST /v1/assignments HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"


async def test_a_call_is_placed_relayed_and_counted() -> None:
    runtime = FakeRuntime("r1")
    async with fleet_of(runtime) as service:
        books = service.balancer.fleet.books
        headers = {"x-switchboard-session": "call-1", "x-switchboard-ticket": "stolen"}
        async with connect(
            service.url + "?model=desk&x=1", additional_headers=headers,
            subprotocols=[websockets.Subprotocol("realtime"), websockets.Subprotocol("secret-key")], compression="deflate",
        ) as client:  # fmt: skip
            assert client.response is not None
            assert client.response.headers["x-switchboard-session"] == "call-1"
            assert client.response.headers["x-switchboard-runtime"] == "r1"
            assert client.subprotocol == "realtime"
            assert "sec-websocket-extensions" not in client.response.headers
            for size in (0, 1, 125, 126, 640, 65535, 65536, 300_000):
                await client.send(b"x" * size)
                assert await client.recv() == b"x" * size
            await client.send(["frag", "ment", "ed"])
            assert await client.recv() == "fragmented"
            await (await client.ping())
            request = runtime.connections[0].request
            assert request is not None
            assert request.path == "/v1/realtime?model=desk&x=1"
            assert request.headers["x-switchboard-ticket"] == "ticket-call-1-1"
            assert request.headers["sec-websocket-extensions"] == "switchboard-aside"  # ours; the caller's stays here
            assert request.headers["sec-websocket-protocol"] == "realtime,secret-key".replace(",", ", ")
            await until(lambda: books.active == 1)
            assert service.balancer.front.statistics()["client_messages"] == 9
        await until(lambda: books.active == 0)
        assert runtime.closes == [(1000, "")]
        assert books.totals.ended == {"closed_by_caller": 1}
        assert books.is_balanced
        assert "stolen" not in service.log.getvalue()
        assert "ticket-" not in service.log.getvalue()
        await until(lambda: service.balancer.front.statistics()["connections"] == 0)


async def test_the_runtime_closing_reaches_the_caller() -> None:
    async def leave(_runtime: FakeRuntime, connection: ServerConnection) -> None:
        await connection.send("bye")
        await connection.close(1001, "maximum length")

    async with fleet_of(FakeRuntime("r1", handler=leave)) as service, connect(service.url) as client:
        assert await client.recv() == "bye"
        with pytest.raises(websockets.ConnectionClosed) as closed:
            await client.recv()
        assert closed.value.rcvd is not None
        assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1001, "maximum length")


async def test_a_caller_who_vanishes_is_a_lost_connection_at_the_runtime() -> None:
    runtime = FakeRuntime("r1")
    async with fleet_of(runtime) as service:
        for how in ("abort", "eof"):
            client = await connect(service.url)
            await client.send("hello")
            await client.recv()
            if how == "abort":
                client.transport.abort()
            else:
                client.transport.write_eof()
            await until(lambda: len(runtime.closes) == 1)
            assert runtime.closes.pop() == (None, None)
            client.transport.abort()
        await until(lambda: service.balancer.front.statistics()["connections"] == 0)


async def test_a_runtime_that_vanishes_is_1012_to_the_caller() -> None:
    runtime = FakeRuntime("r1")
    async with fleet_of(runtime) as service, connect(service.url) as client:
        await client.send("hello")
        await client.recv()
        runtime.connections[0].transport.abort()
        with pytest.raises(websockets.ConnectionClosed) as closed:
            await client.recv()
        assert closed.value.rcvd is not None
        assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1012, "runtime lost")
        await until(lambda: service.balancer.front.statistics()["upstream_lost"] == 1)


async def test_a_fragmenting_runtime_is_a_failure_and_nothing_of_it_is_forwarded() -> None:
    async def fragment(_runtime: FakeRuntime, connection: ServerConnection) -> None:
        await connection.send(["half", "half"])

    async with fleet_of(FakeRuntime("r1", handler=fragment)) as service, connect(service.url) as client:
        with pytest.raises(websockets.ConnectionClosed) as closed:
            await client.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1011


@pytest.mark.parametrize(
    ("data", "code"), [(b"\x81\x02hi", 1002), (b"\xc1\x80....", 1002), (b"\x82\xff" + (2**21).to_bytes(8, "big"), 1009)]
)
async def test_a_caller_who_breaks_the_protocol_is_told_and_the_runtime_too(data: bytes, code: int) -> None:
    runtime = FakeRuntime("r1")
    async with fleet_of(runtime) as service:
        client = await connect(service.url)
        client.transport.write(data)
        with pytest.raises(websockets.ConnectionClosed) as closed:
            await client.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == code
        await until(lambda: [each[0] for each in runtime.closes] == [code])
        await until(lambda: service.balancer.front.statistics()["connections"] == 0)


async def test_a_refused_reservation_escalates_and_a_full_fleet_is_a_503_before_the_upgrade() -> None:
    limit, inflow = placement_pb2.REFUSAL_REASON_LIMIT, placement_pb2.REFUSAL_REASON_INFLOW
    full, busy, last = FakeRuntime("r1", refuse_with=limit), FakeRuntime("r2", refuse_with=inflow), FakeRuntime("r3")
    async with fleet_of(full, busy, last) as service:
        for number in range(4):
            async with connect(service.url + f"?session_id=c{number}") as client:
                assert client.response is not None
                assert client.response.headers["x-switchboard-runtime"] == "r3"
        last.refuse_with = limit
        with pytest.raises(websockets.InvalidStatus) as refused:
            await connect(service.url)
        response = refused.value.response
        assert response.status_code == 503
        assert response.headers["retry-after"] == "2"
        assert response.body is not None
        error = json.loads(response.body)["error"]
        assert error["code"] == "no_capacity"
        reasons = {each["runtime_id"]: each["reason"] for each in error["runtimes"]}
        assert reasons == {"r1": "limit", "r2": "inflow", "r3": "limit"}  # bug R23
        counts = service.balancer.placer.counts
        assert (counts.attempted, counts.placed, dict(counts.refused)) == (5, 4, {"no_capacity": 1})


async def test_a_runtime_that_admits_and_refuses_the_upgrade_is_passed_over_and_released() -> None:
    bad, good = FakeRuntime("r1", refuse_upgrade=True), FakeRuntime("r2")
    async with fleet_of(bad, good) as service:
        for number in range(6):
            async with connect(service.url + f"?session_id=c{number}") as client:
                assert client.response is not None
                assert client.response.headers["x-switchboard-runtime"] == "r2"
        await until(lambda: len(bad.released) == len(bad.reserved))
        await until(lambda: not bad.tickets)
        fleet = service.balancer.fleet
        seat = fleet.seat("r1")
        assert seat is not None
        await until(lambda: fleet.view.columns.own_placed.item(seat.slot) == 0.0)  # what was given back was no placement
        counts = service.balancer.placer.counts
        assert (counts.attempted, counts.placed) == (6, 6)
        good.refuse_upgrade = True
        with pytest.raises(websockets.InvalidStatus) as refused:
            await connect(service.url)
        assert refused.value.response.status_code == 503
        assert (counts.attempted, counts.placed, counts.refused.total()) == (7, 6, 1)


async def test_a_silent_runtime_is_timed_out_released_by_number_and_passed_over() -> None:
    deaf, good = FakeRuntime("r1", stays_silent=True, hard_limit=100), FakeRuntime("r2", hard_limit=100)
    async with fleet_of(deaf, good, reserve_timeout_ms=600) as service:
        for number in range(20):  # which of two empty ones is asked first is drawn
            async with connect(service.url + f"?session_id=c{number}") as client:
                assert client.response is not None
                assert client.response.headers["x-switchboard-runtime"] == "r2"
        await until(lambda: len(deaf.released) == len(deaf.reserved) >= 1)
        assert {each.placement_number for each in deaf.released} == {each.placement_number for each in deaf.reserved}
        row = service.balancer.fleet.view.get
        await until(lambda: all(found.in_flight == 0 for name in ("r1", "r2") if (found := row(name)) is not None))


async def test_a_caller_who_leaves_while_being_placed_holds_nothing() -> None:
    deaf = FakeRuntime("r1", stays_silent=True)
    async with fleet_of(deaf, reserve_timeout_ms=5000) as service:
        stream = await anyio.connect_tcp(service.host, service.port)
        await stream.send(
            b"GET /v1/realtime HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        await until(lambda: len(deaf.reserved) == 1)
        await stream.aclose()
        await until(lambda: len(deaf.released) == 1)
        assert service.balancer.placer.counts.abandoned == 1
        await until(lambda: service.balancer.fleet.view.row(0).in_flight == 0)


async def test_a_caller_who_leaves_while_its_runtime_is_dialled_gives_the_place_back() -> None:
    slow = FakeRuntime("r1", hold_upgrade=True)
    async with fleet_of(slow) as service:
        stream = await anyio.connect_tcp(service.host, service.port)
        await stream.send((UPGRADE + "\n").replace("\n", "\r\n").encode())
        with anyio.fail_after(5):
            await slow.held.wait()
        assert len(slow.tickets) == 1
        await stream.aclose()
        await until(lambda: not slow.tickets)
        await until(lambda: service.balancer.front.statistics()["connections"] == 0)


async def test_connections_beyond_the_limit_are_refused_and_the_others_served() -> None:
    async with fleet_of(FakeRuntime("r1"), max_connections=2) as service:
        async with connect(service.url) as first, connect(service.url):
            with pytest.raises(websockets.InvalidStatus) as refused:
                await connect(service.url)
            assert refused.value.response.status_code == 503
            await first.send("served")
            assert await first.recv() == "served"
        await until(lambda: service.balancer.front.statistics()["connections"] == 0)
        async with connect(service.url):
            pass


async def test_a_caller_who_never_reads_is_cut_off_in_bounded_memory() -> None:
    async def flood(_runtime: FakeRuntime, connection: ServerConnection) -> None:
        while True:
            await connection.send(b"x" * 50_000)

    runtime = FakeRuntime("r1", handler=flood)
    async with fleet_of(runtime, stalled_after_ms=300) as service:
        client = await connect(service.url, max_queue=1)
        peak = 0.0

        def is_cut() -> bool:
            nonlocal peak
            statistics = service.balancer.front.statistics()
            peak = max(peak, statistics["buffered_bytes"])
            return statistics["stalled"] == 1

        await until(is_cut, within_s=10)
        assert 65_536 < peak < 2_000_000
        await until(lambda: runtime.closes == [(1008, "slow_caller")])
        client.transport.abort()


async def test_a_runtime_that_stops_reading_is_lost_to_the_caller() -> None:
    async def deaf(_runtime: FakeRuntime, connection: ServerConnection) -> None:
        connection.transport.pause_reading()
        await connection.wait_closed()

    async with fleet_of(FakeRuntime("r1", handler=deaf), stalled_after_ms=300) as service, connect(service.url) as client:

        async def flood() -> None:
            while True:
                await client.send(b"x" * 50_000)

        with anyio.fail_after(10), pytest.raises(websockets.ConnectionClosed) as closed:
            await flood()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1012


async def test_an_oversized_frame_of_the_runtime_is_1009() -> None:
    async def shout(_runtime: FakeRuntime, connection: ServerConnection) -> None:
        await connection.send(b"x" * 2_000_000)

    async with fleet_of(FakeRuntime("r1", handler=shout)) as service, connect(service.url, max_size=None) as client:
        with pytest.raises(websockets.ConnectionClosed) as closed:
            await client.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009


async def test_a_storm_of_callers_who_end_in_every_way_leaves_nothing() -> None:
    """Forty callers at a time close, vanish, half-close, break the protocol or flood; afterwards every count is back."""

    async def caller(service: Running, number: int) -> None:
        client = await connect(f"{service.url}?session_id=storm-{number}", max_queue=1)
        await client.send(b"x" * (100 + number * 997))
        if number % 6 == 0:
            await client.close()
        elif number % 6 == 1:
            client.transport.abort()
        elif number % 6 == 2:
            client.transport.write_eof()
        elif number % 6 == 3:
            client.transport.write(b"\xff\xff\xff")
        elif number % 6 == 4:
            client.transport.write(b"\x82\xfe\xff")  # half a header
            client.transport.abort()
        else:
            for _ in range(20):
                await client.send(b"y" * 60_000)
            client.transport.abort()
        with contextlib.suppress(websockets.ConnectionClosed, TimeoutError), anyio.fail_after(2):
            await client.wait_closed()
        client.transport.abort()

    runtimes = [FakeRuntime(f"r{number}", hard_limit=60, utilisation=0.0) for number in range(3)]
    async with fleet_of(*runtimes, cold_allowance=60) as service:
        for batch in range(3):
            async with anyio.create_task_group() as tasks:
                for number in range(40):
                    tasks.start_soon(caller, service, batch * 40 + number)
        front, books = service.balancer.front, service.balancer.fleet.books
        await until(lambda: front.statistics()["connections"] == 0 and books.active == 0, within_s=15)
        assert books.totals.started == service.balancer.placer.counts.placed == 120
        assert front.statistics()["buffered_bytes"] == 0
        await until(lambda: books.is_balanced)
        view = service.balancer.fleet.view
        await until(lambda: all(row.estimate == 0 for row in view.rows()))


async def test_a_silent_caller_is_probed_and_then_dropped() -> None:
    runtime = FakeRuntime("r1")
    async with fleet_of(runtime, probe_after_ms=200, dead_after_ms=200) as service:
        async with connect(service.url) as alive:  # answers pings by itself
            client = await connect(service.url, ping_interval=None)
            client.transport.pause_reading()  # hears nothing, says nothing
            await until(lambda: len(runtime.closes) == 1)
            assert runtime.closes == [(None, None)]
            await alive.send("still here")
            assert await alive.recv() == "still here"
        client.transport.abort()


async def test_assignments_hold_a_place_and_name_it() -> None:
    runtime = FakeRuntime("r1", hard_limit=2)
    async with fleet_of(runtime) as service, httpx.AsyncClient(base_url=f"http://{service.host}:{service.port}") as http:
        answer = await http.post("/v1/assignments", json={"agent": "desk", "session_id": "call-9", "abilities": ["tools"]})
        assert answer.status_code == 201
        found = answer.json()
        assert found["session_id"] == "call-9"
        assert found["epoch"] == 1
        assert found["websocket_url"] == f"ws://{runtime.websocket_address}/v1/realtime?model=desk"
        assert found["grpc_address"] == runtime.grpc_address
        assert found["ticket"] == "ticket-call-9-1"
        assert found["ticket_ttl_s"] == 2.0
        assert found["reason"].startswith("drawn by its room below the common level of 1 with room: 0+0+0 of 2")
        again = await http.post("/v1/assignments", json={"agent": "desk", "session_id": "call-9"})
        assert again.json()["ticket"] == found["ticket"]
        assert runtime.reserved[-1].epoch == 1
        await runtime.start_leg("call-9")
        await until(lambda: bool(service.balancer.fleet.books.where("call-9")))
        taken = await http.post("/v1/assignments", json={"agent": "desk", "session_id": "call-9"})
        assert (taken.status_code, taken.json()["error"]["code"]) == (409, "session_live")


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"{", 400, "not JSON"), (b"[]", 400, "object"), (b'{"agnt": "x"}', 400, "agnt"), (b'{"agent": 3}', 400, "agent"),
        (b'{"session_id": "a b"}', 400, "session_id"), (b'{"priority": "vip"}', 400, "low | normal | high"),
        (b'{"min_version": "v1"}', 400, "min_version"), (b'{"abilities": [1]}', 400, "abilities"),
        (b'{"context_window": -1}', 400, "context_window"), (b'{"agent": "other"}', 404, "agent"),
        (b'{"abilities": ["fly"]}', 404, "asked for"), (b"[" * 60_000, 400, "not JSON"), (b"x" * 70_000, 413, "65536"),
    ],
)  # fmt: skip
async def test_bad_assignments_are_named(body: bytes, status: int, words: str) -> None:
    async with fleet_of(FakeRuntime("r1")) as service, httpx.AsyncClient() as http:
        answer = await http.post(f"http://{service.host}:{service.port}/v1/assignments", content=body)
        assert answer.status_code == status
        assert words in answer.json()["error"]["message"]


UPGRADE = (
    "GET /v1/realtime HTTP/1.1\nHost: x\nUpgrade: websocket\nConnection: Upgrade\nSec-WebSocket-Version: 13\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\n"
)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("GET / HTTP/1.1\nHost: x\n\n", 404),
        ("GET /v1/realtime HTTP/1.1\nHost: x\n\n", 426),
        ("GET /v1/assignments HTTP/1.1\nHost: x\n\n", 405),
        ("\x00\x01\x02 garbage\n\n", 400),
        ("GET / HTTP/1.1\n\n", 400),
        (UPGRADE + "Content-Length: 0\n\n", 400),
        (UPGRADE + "Content-Length: 5\nContent-Length: 6\n\nhello", 400),
        (UPGRADE + "Content-Length: 5\nContent-Length: 5\n\nhello", 400),
        (UPGRADE + "Transfer-Encoding: chunked\n\n0\n\n", 501),
        (UPGRADE + "Host: y\n\n", 400),
        (UPGRADE + "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\n\n", 400),
        (UPGRADE.replace("13", "8") + "\n", 426),
        (UPGRADE.replace("dGhlIHNhbXBsZSBub25jZQ==", "short") + "\n", 400),
        (UPGRADE.replace("Upgrade: websocket", "Upgrade: h2c") + "\n", 426),
        (UPGRADE.replace("GET", "POST") + "\n", 405),
        (UPGRADE.replace("/v1/realtime", "/v1/realtime?session_id=a&session_id=b") + "\n", 400),
        (UPGRADE.replace("/v1/realtime", "/v1/realtime?session_id=a") + "X-Switchboard-Session: b\n\n", 400),
        (UPGRADE.replace("/v1/realtime", "/v1/realtime?model=nobody") + "\n", 404),
        ("GET /" + "a" * 20_000, 431),
    ],
)
async def test_bad_requests_are_answered_and_nothing_is_held(text: str, status: int) -> None:
    async with fleet_of(FakeRuntime("r1")) as service:
        stream = await anyio.connect_tcp(service.host, service.port)
        await stream.send(text.replace("\n", "\r\n").encode("latin-1"))
        answer = b""
        with anyio.fail_after(5), contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            while True:
                answer += await stream.receive()
        await stream.aclose()
        assert answer.split(b" ")[1] == str(status).encode()
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"]
        await until(lambda: service.balancer.front.statistics()["connections"] == 0)


async def test_a_slow_handshake_is_timed_out() -> None:
    async with fleet_of(FakeRuntime("r1"), head_timeout_ms=200) as service:
        stream = await anyio.connect_tcp(service.host, service.port)
        await stream.send(b"GET /v1/real")
        with anyio.fail_after(5):
            answer = await stream.receive()
        assert b"408" in answer
        await stream.aclose()
        await until(lambda: service.balancer.front.statistics()["connections"] == 0)


async def test_a_drain_lets_calls_finish_and_then_closes_with_1012() -> None:
    async with fleet_of(FakeRuntime("r1")) as service:
        async with connect(service.url) as client, anyio.create_task_group() as tasks:
            service.balancer.placer.is_closing = True
            tasks.start_soon(service.balancer.front.drain, 0.2)
            await client.send("still served")
            assert await client.recv() == "still served"
            with pytest.raises(websockets.ConnectionClosed) as closed:
                await client.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1012
        assert service.balancer.front.statistics()["connections"] == 0


@pytest.mark.parametrize("request_text", [_UPGRADE_TEXT, _ASSIGN_TEXT], ids=["upgrade", "assignment"])
async def test_callers_who_hang_up_while_they_are_placed_harm_nobody_else(request_text: bytes) -> None:
    """grpc.aio answers a cancelled call with a CancelledError of its own now and then, which once ended the whole front."""
    # Room for all: what is held for callers who left is the ticket's to free, and not the point here.
    roomy = FakeRuntime("r1", hard_limit=1000)
    async with fleet_of(roomy, cold_allowance=1000) as service, connect(service.url) as bystander:
        host, port = service.host, service.port
        for hang_up in range(200):
            async with await anyio.connect_tcp(host, port) as impatient:
                await impatient.send(request_text)
                for _ in range(hang_up % 25):  # a little later each time, so that every moment of a placement is met
                    await anyio.lowlevel.checkpoint()
        await bystander.send("still here?")
        assert await bystander.recv() == "still here?"
        async with connect(service.url) as fresh:
            await fresh.send("and I?")
            assert await fresh.recv() == "and I?"
        counts = service.balancer.placer.counts
        await until(lambda: service.balancer.placer.being_placed == 0)
        assert counts.attempted == counts.placed + sum(counts.refused.values()) + counts.abandoned


@pytest.mark.parametrize("word", ["host", "sec-websocket-key", "Sec-WebSocket-Version"])
async def test_a_connection_header_cannot_take_away_what_an_upgrade_needs(word: str) -> None:
    async with fleet_of(FakeRuntime("r1")) as service:
        text = _UPGRADE_TEXT.replace(b"Connection: Upgrade", b"Connection: Upgrade, " + word.encode())
        async with await anyio.connect_tcp(service.host, service.port) as stream:
            await stream.send(text)
            with anyio.fail_after(20):
                answer = await stream.receive()
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert word.lower().encode() in answer
        assert service.balancer.placer.counts.attempted == 0
