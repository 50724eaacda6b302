"""Real runtimes killed while calls are being set up on them, before they have said a word: no caller loses its call."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from websockets.asyncio.client import ClientConnection, connect

from perf.fleet import LocalFleet, local_fleet
from perf.processes import Program
from protos.switchboard.v1 import voice_pb2 as pb

pytestmark = [pytest.mark.e2e, pytest.mark.anyio, pytest.mark.timeout(180)]

_BALANCER = [
    "--public-port", "0", "--operator-port", "0", "--control-port", "0", "--cold-allowance", "100", "--log-level", "debug",
]  # fmt: skip
_RUNTIME = [
    "--engines", "synthetic", "--hard-limit", "100", "--inflow-depth", "100", "--inflow-ramp-s", "0", "--guard-lag-ms", "60000",
    "--guard-utilisation", "100",
]  # fmt: skip
_CALLS = 16  # of each wire


@asynccontextmanager
async def _fleet(folder: Path) -> AsyncIterator[LocalFleet]:
    async with local_fleet(2, folder, balancer_arguments=_BALANCER, runtime_arguments=_RUNTIME) as fleet:
        yield fleet


def _binary_url(fleet: LocalFleet, session_id: str) -> str:
    return f"{fleet.call_url.replace('/v1/realtime', '/v1/converse')}?session_id={session_id}"


async def _begun(client: ClientConnection) -> None:
    """On the binary wire: configured, and told that the session has started."""
    audio = pb.AudioFormat(encoding=pb.AUDIO_ENCODING_PCM16, sample_rate_hz=16_000)
    await client.send(pb.ConverseRequest(config=pb.SessionConfig(input_format=audio)).SerializeToString())
    with anyio.fail_after(30):
        answer = await client.recv()
    assert isinstance(answer, bytes)
    assert pb.ConverseResponse.FromString(answer).WhichOneof("payload") == "started"


async def _answered(client: ClientConnection) -> None:
    """On the Realtime wire: created once, and the first message is answered."""
    await client.send('{"type": "input_audio_buffer.clear"}')
    with anyio.fail_after(30):
        assert "session.created" in str(await client.recv())
        assert "input_audio_buffer.cleared" in str(await client.recv())


def _serving(fleet: LocalFleet, client: ClientConnection) -> Program:
    assert client.response is not None
    name = client.response.headers["x-switchboard-runtime"]
    (program,) = [runtime for runtime in fleet.runtimes if runtime.ready["runtime_id"] == name]
    return program


def _is_settled(eligible: int, books: dict[str, int]) -> bool:
    return eligible == 1 and books["active"] == 2 * _CALLS


@pytest.mark.parametrize("said", [False, True], ids=["after the upgrade", "with the first message unread"])
async def test_a_runtime_killed_before_it_answered(tmp_path: Path, said: bool) -> None:  # requirement C3
    async with _fleet(tmp_path) as fleet:
        async with connect(_binary_url(fleet, "call-1")) as client:
            victim = _serving(fleet, client)
            os.kill(victim.pid, signal.SIGSTOP)  # what is sent now is not read
            if said:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_begun, client)
                    await anyio.wait_all_tasks_blocked()
                    with anyio.fail_after(20):
                        await (await client.ping())  # answered by the relay: it has read what came before
                    victim.kill()
            else:
                victim.kill()
                await _begun(client)
            seen = await fleet.wait_for("its second leg", lambda seen: seen["books"]["active"] == 1, 20)
            assert (seen["books"]["started"], seen["books"]["moved_in"]) == (1, 0)
            assert seen["books"]["balanced"]
        await fleet.wait_for("its end", lambda seen: seen["books"]["active"] == 0, 20)


async def test_a_runtime_killed_while_many_call(tmp_path: Path) -> None:  # requirement C3
    """At whatever point of its set-up each call is: dialled, answered, created, its first message on the way."""
    async with _fleet(tmp_path) as fleet:
        victim = fleet.runtimes[0]
        connected = 0
        half_there, all_there = anyio.Event(), anyio.Event()

        async def call(number: int, is_binary: bool) -> None:
            nonlocal connected
            url = _binary_url(fleet, f"b-{number}") if is_binary else f"{fleet.call_url}?session_id=r-{number}"
            async with connect(url, open_timeout=30) as client:
                connected += 1
                if connected == _CALLS:
                    half_there.set()
                await (_begun(client) if is_binary else _answered(client))
                await all_there.wait()

        async with anyio.create_task_group() as tasks:
            for number in range(_CALLS):
                tasks.start_soon(call, number, True)
                tasks.start_soon(call, number, False)
            await half_there.wait()
            victim.kill()
            seen = await fleet.wait_for("every call", lambda seen: _is_settled(seen["totals"]["eligible"], seen["books"]), 60)
            assert seen["books"]["balanced"]
            all_there.set()
        assert seen["books"]["started"] + seen["books"]["moved_in"] - seen["books"]["runtime_lost"] == 2 * _CALLS
