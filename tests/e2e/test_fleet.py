"""Real processes on synthetic engines: a kill -9 under calls, a full fleet, a drain."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import grpc
import pytest
from grpc import aio

from clients.realtime import Call, CallRefused, connect
from perf.fleet import LocalFleet, local_fleet
from protos.switchboard.v1 import voice_pb2 as pb
from protos.switchboard.v1 import voice_pb2_grpc

pytestmark = [pytest.mark.e2e, pytest.mark.anyio, pytest.mark.timeout(180)]

_PORTS = ["--public-port", "0", "--operator-port", "0", "--control-port", "0"]


@asynccontextmanager
async def _fleet(folder: Path, runtimes: int, *runtime_arguments: str) -> AsyncIterator[LocalFleet]:
    arguments = ["--engines", "synthetic", *runtime_arguments]
    async with local_fleet(runtimes, folder, balancer_arguments=_PORTS, runtime_arguments=arguments) as fleet:
        yield fleet


async def _start(lines: AsyncExitStack, url: str, session_id: str) -> Call:
    """A call whose first valid message was sent and answered."""
    call = await lines.enter_async_context(connect(url, session_id=session_id))
    await call.send({"type": "session.update", "session": {"type": "realtime"}})
    async for event in call.events():
        if event["type"] == "session.updated":
            return call
    raise AssertionError("the call ended before it began")


async def _answered(call: Call) -> None:
    """The call is served: it gets an answer to a plain question."""
    await call.send({"type": "input_audio_buffer.clear"})
    async for event in call.events():
        if event["type"] == "input_audio_buffer.cleared":
            return
    raise AssertionError("the call ended")


def _post(url: str, document: dict[str, Any]) -> tuple[int, str, dict[str, Any]]:
    request = urllib.request.Request(url, json.dumps(document).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.headers.get("Retry-After", ""), json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers.get("Retry-After", ""), json.load(error)


@pytest.mark.usefixtures("from_wheel")
async def test_kill_9_under_calls(tmp_path: Path) -> None:  # requirement F3, S1, bug R1, B18
    async with _fleet(tmp_path, 3) as fleet, AsyncExitStack() as lines:
        calls = [await _start(lines, fleet.call_url, f"call-{number}") for number in range(6)]
        await fleet.wait_for("six calls in the books", lambda seen: seen["books"]["active"] == 6, 20)
        victim = fleet.runtimes[0]
        theirs = [call for call in calls if call.runtime_id == victim.ready["runtime_id"]]
        assert theirs, "the six calls are spread over three runtimes"

        started = anyio.current_time()
        victim.kill()
        await fleet.wait_for("the dead runtime out of the running", lambda seen: seen["totals"]["eligible"] == 2, 20)
        assert anyio.current_time() - started < 2.0
        await fleet.wait_for("its sessions lost", lambda seen: seen["books"]["runtime_lost"] == len(theirs), 20)
        assert anyio.current_time() - started < 4.0

        for call in calls:  # requirement C3: their callers notice nothing
            await _answered(call)
        fresh = [await _start(lines, fleet.call_url, f"fresh-{number}") for number in range(4)]
        assert victim.ready["runtime_id"] not in {call.runtime_id for call in fresh}
        seen = await fleet.wait_for("all of them in the books", lambda seen: seen["books"]["active"] == 10, 20)
        assert seen["books"]["balanced"]
        assert (seen["books"]["started"], seen["books"]["moved_in"]) == (10, len(theirs))


@pytest.mark.usefixtures("from_wheel")
async def test_a_full_fleet_says_so_everywhere(tmp_path: Path) -> None:  # requirement R6, bug R23
    async with _fleet(tmp_path, 2, "--hard-limit", "1") as fleet, AsyncExitStack() as lines:
        for number in range(2):
            await _start(lines, fleet.call_url, f"call-{number}")
        await fleet.wait_for("a full fleet", lambda seen: seen["totals"]["active"] == 2, 20)

        with pytest.raises(CallRefused) as refused:
            await _start(lines, fleet.call_url, "one-too-many")
        assert refused.value.status == 503
        assert refused.value.retry_after_s >= 1
        assert {runtime["runtime_id"] for runtime in refused.value.runtimes} == {"runtime-1", "runtime-2"}
        assert {runtime["reason"] for runtime in refused.value.runtimes} <= {"limit", "no_headroom"}

        status, retry_after, body = await anyio.to_thread.run_sync(
            _post, f"{fleet.public}/v1/assignments", {"agent": "front-desk"}
        )
        assert status == 503
        assert int(retry_after) >= 1
        assert len(body["error"]["runtimes"]) == 2

        with pytest.raises(CallRefused) as direct:
            await _start(lines, fleet.runtime_url(0), "direct")
        assert (direct.value.status, direct.value.code) == (503, "limit")

        async with aio.insecure_channel(str(fleet.runtimes[0].ready["grpc"])) as channel:
            stream = voice_pb2_grpc.VoiceAgentStub(channel).Converse()
            audio_format = pb.AudioFormat(encoding=pb.AUDIO_ENCODING_PCM16, sample_rate_hz=16_000)
            await stream.write(pb.ConverseRequest(config=pb.SessionConfig(input_format=audio_format)))
            assert await stream.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            trailers = {str(key): value for key, value in await stream.trailing_metadata() or ()}
            assert trailers["refusal-reason"] == "limit"
        seen = await fleet.document("/v1/fleet")
        assert seen["books"]["active"] == 2


@pytest.mark.usefixtures("from_wheel")
async def test_an_assignment_is_honoured_once(tmp_path: Path) -> None:  # requirement D2
    async with _fleet(tmp_path, 1, "--allow-direct", "nowhere") as fleet, AsyncExitStack() as lines:
        status, _, place = await anyio.to_thread.run_sync(_post, f"{fleet.public}/v1/assignments", {"session_id": "mine"})
        assert status == 201
        url = f"{place['websocket_url']}{'&' if '?' in place['websocket_url'] else '?'}ticket={place['ticket']}"
        call = await _start(lines, url, "")
        assert call.session_id == "mine"
        with pytest.raises(CallRefused) as again:
            await _start(lines, url, "")
        assert (again.value.status, again.value.code) == (403, "used_ticket")
        with pytest.raises(CallRefused) as without:
            await _start(lines, fleet.runtime_url(0), "")
        assert without.value.code == "ticket_required"


@pytest.mark.usefixtures("from_wheel")
async def test_a_drain_moves_calls_and_the_process_leaves(tmp_path: Path) -> None:  # requirement C1, bug R33, bug R34
    async with _fleet(tmp_path, 2, "--drain-timeout-s", "60") as fleet, AsyncExitStack() as lines:
        calls = [await _start(lines, fleet.call_url, f"call-{number}") for number in range(4)]
        leaving = fleet.runtimes[0]
        theirs = [call for call in calls if call.runtime_id == leaving.ready["runtime_id"]]
        leaving.terminate()
        await fleet.wait_for("the drain seen", lambda seen: seen["totals"]["eligible"] == 1, 20)
        fresh = [await _start(lines, fleet.call_url, f"fresh-{number}") for number in range(3)]
        assert {call.runtime_id for call in fresh} == {fleet.runtimes[1].ready["runtime_id"]}
        with anyio.fail_after(30):
            assert await leaving.wait() == 0
        for call in calls:
            await _answered(call)
        await lines.aclose()
        seen = await fleet.wait_for("quiet books", lambda seen: seen["books"]["active"] == 0, 20)
        assert seen["books"]["runtime_lost"] == 0
        assert seen["books"]["ended"] == {"closed_by_caller": 7}
        assert seen["books"]["moved_in"] == seen["books"]["moved_out"] == len(theirs)


@pytest.mark.usefixtures("from_wheel")
async def test_the_balancer_leaves_on_sigterm(tmp_path: Path) -> None:
    async with _fleet(tmp_path, 1) as fleet:
        fleet.balancer.terminate()
        with anyio.fail_after(40):
            assert await fleet.balancer.wait() == 0
        assert fleet.runtimes[0].returncode is None
