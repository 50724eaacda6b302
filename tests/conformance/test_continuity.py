"""A call goes on at another runtime as if nothing had happened, on every wire that a relay keeps, lost or moved at any moment."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import pytest

from balancer.front.relay import Relay
from protos.switchboard.v1 import voice_pb2
from runtime.dialogue.agent import Json, Turn
from runtime.primitives.reasons import EndReason
from tests.balancer.support.running import Running, running
from tests.conformance.callers import Caller, speech
from tests.conformance.grpc_wire import GrpcCaller
from tests.conformance.wires import TELLS, WIRES
from tests.support.call_parts import ScriptedAgent, tool
from tests.support.local_runtime import DESK, LocalRuntime, local_runtime, until

pytestmark = [pytest.mark.anyio]

_KEPT = sorted(WIRES)
_ANSWER = "It is a long way. And the hill is high."


def _lose(relay: Relay) -> None:
    """As when the runtime is killed: its connection breaks."""
    relay.runtime.transport.abort()


def _move(relay: Relay) -> None:
    assert relay.succession is not None
    assert relay.succession.want()


_WAYS: list[Callable[[Relay], None]] = [_lose, _move]


@dataclass
class _House:
    """Two runtimes behind a relay, with one agent each that do and say the same; `runs`: keys under which the tool ran."""

    service: Running
    runtimes: list[LocalRuntime]
    runs: list[str]
    tool_may_end: anyio.Event

    def url(self, wire: str) -> str:
        if wire == "grpc":
            return self.service.grpc
        path = {"binary": "/v1/converse", "twilio": f"/v1/twilio/{DESK}"}.get(wire, "/v1/realtime")
        return f"ws://{self.service.host}:{self.service.port}{path}"

    @property
    def relay(self) -> Relay:
        (relay,) = self.service.balancer.front.calls.all()
        return relay

    async def elsewhere(self, way: Callable[[Relay], None]) -> None:
        """Returns when another runtime serves the call."""
        await until(lambda: len(self.service.balancer.front.calls) == 1)  # a telephone is placed when it has said its start
        before, succession = self.relay.runtime, self.relay.succession
        await until(lambda: succession is not None and succession.can_move and self.totals[2] == 1)
        way(self.relay)
        await until(lambda: self.relay.runtime is not before)

    @property
    def totals(self) -> tuple[int, int, int]:
        """Legs that moved in, moved out, and are active."""
        ledgers = [local.ledger for local in self.runtimes]
        return (
            sum(ledger.totals.moved_in for ledger in ledgers),
            sum(ledger.totals.moved_out for ledger in ledgers),
            sum(ledger.active for ledger in ledgers),
        )


@asynccontextmanager
async def _house(**changes: Any) -> AsyncIterator[_House]:
    runs: list[str] = []
    tool_may_end = anyio.Event()
    tool_may_end.set()

    def agent() -> ScriptedAgent:
        async def book(_: Mapping[str, Json], key: str) -> Json:
            runs.append(key)
            await house.tool_may_end.wait()
            return {"number": len(runs)}

        async def answer(turn: Turn) -> AsyncIterator[str]:
            if "book" in turn.text:
                booked = await turn.call_tool("book", {})
                yield f"Booked: {booked}. "
            yield _ANSWER

        scripted = ScriptedAgent(answer, [tool("book", book)])
        scripted.name = DESK
        return scripted

    async with running(cold_allowance=10) as service:
        make = partial(local_runtime, balancers=(service.control,), **changes)
        async with make(agent=agent(), runtime_id="one") as one, make(agent=agent(), runtime_id="two") as two:
            house = _House(service, [one, two], runs, tool_may_end)
            view = service.balancer.fleet.view
            await until(lambda: len(view) == 2 and all(view.row(at).arrived_ns is not None for at in range(2)))
            yield house


def _shape(caller: Caller) -> list[object]:
    """What was told, without how it was cut."""
    texts: list[object] = []
    for told in caller.told:
        if told.kind == "reply_text" and texts and isinstance(texts[-1], tuple) and texts[-1][0] == "reply_text":
            texts[-1] = ("reply_text", texts[-1][1] + told.text)
        elif told.kind != "audio":
            texts.append((told.kind, told.text))
    return texts


def _audio(caller: Caller) -> bytes:
    return b"".join(told.audio for told in caller.of("audio"))


async def _talk(
    wire: str, house: _House, text: str, turns: int, way: Callable[[Relay], None] | None, at: int
) -> tuple[list[object], bytes]:
    """Turns one after another; in the first one the call is moved amid the caller's words (`at` 0) or the agent's."""
    for local in house.runtimes:
        local.hears.answer = text
    async with WIRES[wire](house.runtimes[0], session_id="call-1", url=house.url(wire)) as caller:
        for turn in range(1, turns + 1):
            pcm = speech()
            await caller.say(pcm[: len(pcm) // 4 * 2])
            if way is not None and turn == 1 and at == 0:
                await house.elsewhere(way)
            await caller.say(pcm[len(pcm) // 4 * 2 :])
            if way is not None and turn == 1 and at:
                await caller.until("audio", at)
                await house.elsewhere(way)
            await caller.until("reply_done", turn)
        return _shape(caller), _audio(caller)


@pytest.mark.parametrize("way", _WAYS)
@pytest.mark.parametrize("at", [0, 20], ids=["in the caller's words", "in the agent's words"])
@pytest.mark.parametrize("wire", _KEPT)
async def test_all_is_told_once_and_nothing_is_missing(
    wire: str, at: int, way: Callable[[Relay], None]
) -> None:  # requirement C2, C3
    turns = 1 if at else 2
    async with _house() as house:
        shape, audio = await _talk(wire, house, "good morning", turns, None, 0)
    async with _house(lead_ms=40) as house:
        moved_shape, moved_audio = await _talk(wire, house, "good morning", turns, way, at)
        assert moved_shape == shape
        assert moved_audio == audio
        moved_in, moved_out, _ = house.totals
        assert (moved_in, moved_out) == (1, 1 if way is _move else 0)
        assert sum(runtime.ledger.totals.started for runtime in house.runtimes) == 1


@pytest.mark.parametrize("wire", [wire for wire in _KEPT if "tool_call" in TELLS[wire]])
async def test_a_tool_that_was_cut_off_is_not_run_again(wire: str) -> None:  # requirement C3, R
    async with _house() as house:
        for local in house.runtimes:
            local.hears.answer = "book"
        house.tool_may_end = anyio.Event()
        async with WIRES[wire](house.runtimes[0], session_id="call-1", url=house.url(wire)) as caller:
            await caller.say(speech())
            await until(lambda: bool(house.runs))
            await house.elsewhere(_lose)
            result = await caller.until("tool_result")
            house.tool_may_end.set()
            await caller.until("reply_done")
        assert len(house.runs) == 1
        assert "may or may not" in result.text or not result.text  # a failure is no result on some wires


@pytest.mark.parametrize("wire", [wire for wire in _KEPT if "tool_call" in TELLS[wire]])
async def test_a_planned_move_waits_for_a_tool(wire: str) -> None:  # requirement C2
    async with _house() as house:
        for local in house.runtimes:
            local.hears.answer = "book"
        house.tool_may_end = anyio.Event()
        async with WIRES[wire](house.runtimes[0], session_id="call-1", url=house.url(wire)) as caller:
            await caller.say(speech())
            await until(lambda: bool(house.runs))
            before = house.relay.runtime
            _move(house.relay)
            await until(lambda: house.relay.succession is not None and house.relay.succession.can_move is False)
            house.tool_may_end.set()
            await until(lambda: house.relay.runtime is not before)
            result = await caller.until("tool_result")
            await caller.until("reply_done")
        assert len(house.runs) == 1
        assert "number" in result.text


@pytest.mark.parametrize("way", _WAYS)
async def test_a_half_close_is_said_again_to_the_next_runtime(way: Callable[[Relay], None]) -> None:  # requirement C2, C3
    """The caller has said all, and hears out a reply that one runtime begins and another one ends."""
    async with _house(lead_ms=40) as house:
        for local in house.runtimes:
            local.hears.answer = "good morning"
        async with WIRES["grpc"](house.runtimes[0], session_id="call-1", url=house.url("grpc")) as caller:
            assert isinstance(caller, GrpcCaller)
            await caller.say(speech())
            await caller.until("audio", 5)
            await caller.stream.write(voice_pb2.ConverseRequest(end_of_input=voice_pb2.EndOfInput()))
            await caller.stream.done_writing()
            await house.elsewhere(way)
            assert (await caller.until("reply_done")).text == _ANSWER
            assert (await caller.until("ended")).text == "closed_by_caller"
            await until(lambda: caller.end_status == "OK")
        assert sum(runtime.ended.get(EndReason.CLOSED_BY_CALLER, 0) for runtime in house.runtimes) == 1
        assert house.totals[2] == 0
