"""One control, two relays, three runtimes: the control is killed and started again under calls, and nobody notices."""

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

from clients.realtime import Call, CallRefused, connect
from clients.refusals import CallFailed
from perf.fleet import LocalFleet
from perf.polling import until
from perf.processes import Program
from perf.relay_fleet import RelayFleet, relay_fleet
from protos.switchboard.v1 import assignment_pb2, assignment_pb2_grpc, voice_pb2, voice_pb2_grpc

pytestmark = [pytest.mark.e2e, pytest.mark.anyio, pytest.mark.timeout(240)]


@asynccontextmanager
async def _running(folder: Path, *relay_arguments: str) -> AsyncIterator[RelayFleet]:
    async with relay_fleet(
        2, 3, folder, control_arguments=[], relay_arguments=list(relay_arguments), runtime_arguments=["--engines", "synthetic"]
    ) as fleet:
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
    with anyio.fail_after(30):
        await call.send({"type": "input_audio_buffer.clear"})
        async for event in call.events():
            if event["type"] == "input_audio_buffer.cleared":
                return
    raise AssertionError("the call ended")


def _post(url: str, document: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    request = urllib.request.Request(url, json.dumps(document).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return int(answer.status), json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


async def _held(fleet: LocalFleet, calls: int) -> dict[str, int]:
    """How many calls each relay has, once these are all."""
    seen = await fleet.wait_for(
        "all calls with their relays", lambda seen: sum(each["held"] for each in seen["relays"]) == calls, 20
    )
    return {each["relay_id"]: each["held"] for each in seen["relays"]}


def _serving(fleet: LocalFleet, call: Call) -> tuple[Program, list[Program]]:
    """The runtime that took a call, and the others: how calls are spread is chance."""
    (serving,) = [each for each in fleet.runtimes if each.ready["runtime_id"] == call.runtime_id]
    return serving, [each for each in fleet.runtimes if each is not serving]


async def test_the_control_dies_under_calls_and_a_runtime_after_it(tmp_path: Path) -> None:  # requirement C1, C3, decision 12
    async with _running(tmp_path) as parts, AsyncExitStack() as lines:
        fleet = parts.fleet
        calls = [await _start(lines, fleet.call_url, f"call-{number}") for number in range(12)]
        assert all((await _held(fleet, 12)).values()), "one port, and both relays have calls"

        fleet.balancer.kill()
        await fleet.balancer.wait()
        for call in calls:
            await _answered(call)
        with pytest.raises(CallRefused) as refused:
            await _start(lines, fleet.call_url, "too-early")
        assert (refused.value.status, refused.value.code) == (503, "control_unreachable")
        assert refused.value.retry_after_s >= 1

        await parts.restart_control()
        fleet = parts.fleet
        seen = await fleet.wait_for(
            "everything told anew",
            lambda seen: (
                seen["totals"]["eligible"] == 3
                and seen["books"]["active"] == 12
                and sum(each["held"] for each in seen["relays"]) == 12
            ),
            30,
        )
        assert (seen["books"]["recovered"], seen["books"]["balanced"]) == (12, True)
        for call in calls:
            await _answered(call)

        victim, (leaving, last) = _serving(fleet, calls[0])
        victim.kill()
        for call in calls:  # adopted through the new control
            await _answered(call)
        seen = await fleet.wait_for("its calls in the books", lambda seen: seen["books"]["active"] == 12, 20)
        assert seen["books"]["moved_in"] >= 1

        drain = f"{fleet.operator}/v1/runtimes/{leaving.ready['runtime_id']}/drain"
        status, _ = await anyio.to_thread.run_sync(_post, drain, {})
        assert status == 202
        with anyio.fail_after(30):
            assert await leaving.wait() == 0
        for call in calls:
            await _answered(call)
        fresh = await _start(lines, fleet.call_url, "fresh")
        assert fresh.runtime_id == last.ready["runtime_id"]
        await lines.aclose()
        seen = await fleet.wait_for("quiet books", lambda seen: seen["books"]["active"] == 0, 20)
        assert seen["books"]["ended"] == {"closed_by_caller": 13}
        await fleet.wait_for("nothing held", lambda seen: not sum(each["held"] for each in seen["relays"]), 20)


async def test_a_runtime_dies_while_no_control_is_there(tmp_path: Path) -> None:  # requirement C3
    async with _running(tmp_path) as parts, AsyncExitStack() as lines:
        fleet = parts.fleet
        calls = [await _start(lines, fleet.call_url, f"call-{number}") for number in range(9)]
        await _held(fleet, 9)
        victim, _ = _serving(fleet, calls[0])
        theirs = [call for call in calls if call.runtime_id == victim.ready["runtime_id"]]
        fleet.balancer.kill()
        await fleet.balancer.wait()
        victim.kill()
        await victim.wait()
        await parts.restart_control()
        for call in calls:
            await _answered(call)
        seen = await parts.fleet.wait_for("all of them in the books", lambda seen: seen["books"]["active"] == 9, 20)
        assert seen["books"]["moved_in"] == len(theirs)


async def test_operators_move_a_call_and_a_relay_that_dies_loses_its_own(tmp_path: Path) -> None:
    async with _running(tmp_path) as parts, AsyncExitStack() as lines:
        fleet = parts.fleet
        status, place = await anyio.to_thread.run_sync(_post, f"{fleet.public}/v1/assignments", {"session_id": "mine"})
        assert (status, place["session_id"]) == (201, "mine")
        calls = [await _start(lines, fleet.call_url, f"call-{number}") for number in range(12)]
        held = await _held(fleet, 12)
        moved = calls[0]
        to = next(each.ready["runtime_id"] for each in fleet.runtimes if each.ready["runtime_id"] != moved.runtime_id)
        wish, status = f"{fleet.operator}/v1/calls/{moved.session_id}/move", 409
        with anyio.fail_after(20):
            while status == 409:  # until its first checkpoint has come
                await _answered(moved)
                status, _ = await anyio.to_thread.run_sync(_post, wish, {"to": to})
        assert status == 202
        await fleet.wait_for(
            "the move told by its relay",
            lambda seen: {"kind": "planned", "result": "moved", "count": 1} in seen["moves"],
            20,
        )
        legs = (await fleet.document(f"/v1/calls/{moved.session_id}"))["legs"]
        assert [(leg["runtime_id"], leg["epoch"]) for leg in legs] == [(to, 2)]
        await _answered(moved)

        parts.relays[0].kill()
        await fleet.wait_for("one relay left", lambda seen: [each["relay_id"] for each in seen["relays"]] == ["relay-2"], 20)
        ended = 0
        for call in calls:
            try:
                await _answered(call)
            except (AssertionError, CallFailed):
                ended += 1
        assert ended == held["relay-1"]
        await fleet.wait_for("the others go on", lambda seen: seen["books"]["active"] == held["relay-2"], 20)
        await _start(lines, fleet.call_url, "fresh")


async def test_a_relay_that_leaves_turns_no_new_caller_away(tmp_path: Path) -> None:  # requirement D1
    roomy = ["--engines", "synthetic", "--hard-limit", "200", "--inflow-depth", "200", "--inflow-ramp-s", "0"]
    async with (
        relay_fleet(
            2, 1, tmp_path, control_arguments=["--cold-allowance", "200"], relay_arguments=["--drain-timeout-s", "60"],
            runtime_arguments=roomy,
        ) as parts,
        AsyncExitStack() as lines,
    ):  # fmt: skip
        calls = [await _start(lines, parts.fleet.call_url, f"call-{number}") for number in range(12)]
        assert all((await _held(parts.fleet, 12)).values())
        parts.relays[0].terminate()
        log = tmp_path / "relay-1.log"
        await until(lambda: '"stopping"' in log.read_text(), 20)
        address = str(parts.relays[1].ready["public_grpc"])
        for number in range(16):  # the kernel would give it every other one
            async with grpc.aio.insecure_channel(address, options=(("grpc.use_local_subchannel_pool", 1),)) as channel:
                stub = assignment_pb2_grpc.AssignmentsStub(channel)
                request = assignment_pb2.AssignRequest(session_id=f"new-{number}")
                assert (await stub.Assign(request, timeout=20)).session_id == f"new-{number}"
            fresh = await _start(lines, parts.fleet.call_url, f"fresh-{number}")
            await _answered(fresh)
        for call in calls:  # also those of the relay that leaves
            await _answered(call)


async def test_who_is_left_at_the_end_of_a_drain_is_told_why(tmp_path: Path) -> None:
    async with relay_fleet(
        1, 1, tmp_path, control_arguments=[], relay_arguments=["--drain-timeout-s", "0.5"],
        runtime_arguments=["--engines", "synthetic"],
    ) as parts:  # fmt: skip
        (relay,) = parts.relays
        async with grpc.aio.insecure_channel(str(relay.ready["public_grpc"])) as channel:
            stream = voice_pb2_grpc.VoiceAgentStub(channel).Converse()
            audio = voice_pb2.AudioFormat(encoding=voice_pb2.AUDIO_ENCODING_PCM16, sample_rate_hz=24_000)
            await stream.write(voice_pb2.ConverseRequest(config=voice_pb2.SessionConfig(input_format=audio)))
            assert isinstance(await stream.read(), voice_pb2.ConverseResponse)
            relay.terminate()
            with anyio.fail_after(30):
                assert await stream.code() is grpc.StatusCode.UNAVAILABLE
            assert "shutting down" in (await stream.details() or "")
