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
import pytest

from clients.realtime import Call, CallRefused, connect
from perf.relay_fleet import RelayFleet, relay_fleet

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


def _post(url: str, document: dict[str, Any]) -> int:
    request = urllib.request.Request(url, json.dumps(document).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            raise AssertionError(error.read().decode()) from None


async def test_the_control_dies_under_calls_and_a_runtime_after_it(tmp_path: Path) -> None:  # requirement C1, C3, decision 12
    async with _running(tmp_path) as parts, AsyncExitStack() as lines:
        fleet = parts.fleet
        calls = [await _start(lines, fleet.call_url, f"call-{number}") for number in range(12)]
        seen = await fleet.wait_for(
            "all calls with their relays", lambda seen: sum(each["held"] for each in seen["relays"]) == 12, 20
        )
        assert all(each["held"] for each in seen["relays"]), "one port, and both relays have calls"

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

        victim = fleet.runtimes[0]
        victim.kill()
        for call in calls:  # adopted through the new control
            await _answered(call)
        seen = await fleet.wait_for("its calls in the books", lambda seen: seen["books"]["active"] == 12, 20)
        assert seen["books"]["moved_in"] >= 1

        leaving = fleet.runtimes[1]
        status = await anyio.to_thread.run_sync(_post, f"{fleet.operator}/v1/runtimes/{leaving.ready['runtime_id']}/drain", {})
        assert status == 202
        with anyio.fail_after(30):
            assert await leaving.wait() == 0
        for call in calls:
            await _answered(call)
        fresh = await _start(lines, fleet.call_url, "fresh")
        assert fresh.runtime_id == fleet.runtimes[2].ready["runtime_id"]
        await lines.aclose()
        seen = await fleet.wait_for("quiet books", lambda seen: seen["books"]["active"] == 0, 20)
        assert seen["books"]["ended"] == {"closed_by_caller": 13}
        await fleet.wait_for("nothing held", lambda seen: not sum(each["held"] for each in seen["relays"]), 20)
