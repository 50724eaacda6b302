"""All calls of a runtime: a leg and its conversation end together, once, whatever goes wrong in one of them."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import anyio
import pytest

from balancer.telemetry.logs import make_logger
from runtime.app.settings import RuntimeSettings
from runtime.app.wiring import Parts, wire
from runtime.conversation.ports import CallLink, Message
from runtime.dialogue import agent_events as ev
from runtime.dialogue.agent import Json, Turn
from runtime.dialogue.caller_events import ClearAudio, Goodbye, RequestReply, SayText
from runtime.dialogue.intents import Intent, IntentState
from runtime.dialogue.session_settings import SessionSettings
from runtime.engines.errors import EngineBusy, EngineClosed
from runtime.engines.ports import Samples, VoiceActivityStream
from runtime.engines.synthetic import EnergyVad, ToneSynthesizer, synthetic_engines
from runtime.primitives.load_snapshot import RuntimeState
from runtime.primitives.reasons import EndReason
from runtime.session.ledger import Leg
from runtime.transport.ticket_check import Presented
from tests.support.call_parts import ScriptedAgent, ScriptedLink, tool
from tests.support.local_runtime import until

pytestmark = pytest.mark.anyio


class _House:
    def __init__(self, **engines: Any) -> None:
        self.log = io.StringIO()
        logger = make_logger(self.log, "debug")
        settings = RuntimeSettings(engines="synthetic", lead_ms=5_000)
        self.parts: Parts = wire(settings, ScriptedAgent("Very well."), synthetic_engines(**engines), 1, logger)
        self.parts.calls.state = RuntimeState.READY

    def attached(self, name: str) -> Leg:
        return self.parts.places.take(Presented("", name), agent="scripted", peer_host="127.0.0.1")

    async def serve(self, leg: Leg, link: CallLink, agent: str = "scripted") -> EndReason | None:
        return await self.parts.calls.serve(leg, SessionSettings(agent), link)


@pytest.fixture
async def link() -> AsyncIterator[ScriptedLink]:
    link = ScriptedLink()
    yield link
    link.close()


async def test_a_call_is_a_session_from_its_first_message_to_its_end(link: ScriptedLink) -> None:
    house = _House()
    ledger = house.parts.ledger
    leg = house.attached("s")
    assert (ledger.active, ledger.reserved) == (0, 1)
    await link.do(ClearAudio(), Goodbye())
    assert await house.serve(leg, link) is EndReason.CLOSED_BY_CALLER
    assert (ledger.active, ledger.reserved) == (0, 0)
    assert ledger.totals.started == 1
    assert dict(ledger.totals.ended) == {"closed_by_caller": 1}


async def test_a_call_without_a_valid_message_never_was_a_session(link: ScriptedLink) -> None:  # requirement S1
    house = _House()
    link.hang_up()
    assert await house.serve(house.attached("s"), link) is EndReason.CONNECTION_LOST
    assert house.parts.ledger.totals.started == 0
    assert not house.parts.ledger.totals.ended
    assert "never spoke" in house.log.getvalue()


async def test_a_fault_of_ours_ends_that_call_and_no_other(link: ScriptedLink) -> None:  # bug R2, R55
    house = _House()

    class _Broken(ScriptedLink):
        async def receive(self) -> Any:
            event = await super().receive()
            if isinstance(event, RequestReply):
                raise RuntimeError("a fault of ours")
            return event

    broken = _Broken()
    async with anyio.create_task_group() as group:
        group.start_soon(house.serve, house.attached("well"), link)
        await broken.do(ClearAudio(), RequestReply())
        assert await house.serve(house.attached("ill"), broken) is EndReason.HANDLER_ERROR
        broken.close()
        await link.do(SayText("hello"), RequestReply(), Goodbye(after_reply=True))
    assert dict(house.parts.ledger.totals.ended) == {"handler_error": 1, "closed_by_caller": 1}
    assert house.parts.ledger.active == 0


async def test_a_fault_beside_the_reader_is_no_lost_connection() -> None:
    house = _House()

    class _Unsendable(ScriptedLink):
        async def send(self, messages: Sequence[Message]) -> None:
            await super().send(messages)
            if isinstance(messages[0], ev.InputCleared):
                raise ValueError("a text that no wire can carry")

    link = _Unsendable()
    await link.do(ClearAudio())
    assert await house.serve(house.attached("ill"), link) is EndReason.HANDLER_ERROR
    assert dict(house.parts.ledger.totals.ended) == {"handler_error": 1}
    link.close()


@pytest.mark.parametrize("fault", [ValueError, type("Odd", (BaseException,), {})])
async def test_whatever_is_raised_beside_the_reader_ends_that_call_only(fault: type[BaseException]) -> None:  # bug R55
    house = _House()

    class _Odd(ScriptedLink):
        async def send(self, messages: Sequence[Message]) -> None:
            await super().send(messages)
            if isinstance(messages[0], ev.InputCleared):
                raise fault

    link = _Odd()
    await link.do(ClearAudio())
    assert await house.serve(house.attached("ill"), link) is EndReason.HANDLER_ERROR
    assert dict(house.parts.ledger.totals.ended) == {"handler_error": 1}
    link.close()


async def test_a_call_that_cannot_even_begin_gives_its_place_back(link: ScriptedLink) -> None:  # bug R2
    class _Closed(EnergyVad):
        def open_stream(self) -> VoiceActivityStream:
            raise EngineClosed("vad")

    house = _House(vad=_Closed())
    assert await house.serve(house.attached("s"), link) is EndReason.HANDLER_ERROR
    assert house.parts.ledger.reserved == 0
    with anyio.fail_after(10):
        await house.parts.calls.wait_until_empty()


async def test_a_synthesiser_that_is_busy_costs_a_reply_and_not_the_call(link: ScriptedLink) -> None:  # bug R56
    class _Busy(ToneSynthesizer):
        is_busy = True

        async def synthesize(self, text: str, *, is_first: bool = False) -> Samples:
            if self.is_busy:
                raise EngineBusy("tts", 1)
            return await super().synthesize(text, is_first=is_first)

    voice = _Busy()
    house = _House(synthesizer=voice)
    async with anyio.create_task_group() as group:
        group.start_soon(house.serve, house.attached("s"), link)
        await link.do(SayText("hello"), RequestReply())
        first = await link.until(ev.ReplyDone)
        assert first.status is ev.ReplyStatus.FAILED
        assert link.of(ev.SoftError)[0].code == "engine_busy"
        voice.is_busy = False
        await link.do(SayText("again"), RequestReply())
        assert (await link.until(ev.ReplyDone, 2)).status is ev.ReplyStatus.COMPLETED
        await link.do(Goodbye())
    assert dict(house.parts.ledger.totals.ended) == {"closed_by_caller": 1}


async def test_everyone_can_be_sent_home_and_the_last_one_is_waited_for() -> None:  # bug R33
    house = _House()
    links = [ScriptedLink() for _ in range(3)]
    async with anyio.create_task_group() as group:
        for number, each in enumerate(links):
            group.start_soon(house.serve, house.attached(f"s{number}"), each)
            await each.do(ClearAudio())
        await until(lambda: house.parts.ledger.active == 3)
        await links[0].do(Goodbye())
        await until(lambda: house.parts.ledger.active == 2)
        with anyio.move_on_after(0.05) as waited:
            await house.parts.calls.wait_until_empty()
        assert waited.cancelled_caught
        house.parts.calls.end_all(EndReason.DRAINED)
        assert house.parts.ledger.active == 0  # at once, whatever is still to be said
        with anyio.fail_after(10):
            await house.parts.calls.wait_until_empty()
    for each in links:
        each.close()
    assert dict(house.parts.ledger.totals.ended) == {"closed_by_caller": 1, "drained": 2}


async def test_an_agent_is_told_nothing_of_a_caller_that_does_not_read() -> None:
    turns: list[Turn] = []

    async def answer(turn: Turn) -> AsyncIterator[str]:
        turns.append(turn)
        while True:
            yield "word "

    house = _House()
    agent = ScriptedAgent(answer)
    calls = house.parts.calls
    calls._agents = {"scripted": agent}
    link = ScriptedLink()
    async with anyio.create_task_group() as group:

        async def serve() -> None:
            assert await house.serve(house.attached("s"), link) is EndReason.SLOW_CALLER

        group.start_soon(serve)
        await link.until(ev.SessionOpened)
        link.is_stalled = True
        await link.do(SayText("hello"), RequestReply())
    link.close()
    assert "agent failed" not in house.log.getvalue()


async def test_two_sessions_of_one_name_share_no_tool(link: ScriptedLink) -> None:
    runs: list[str] = []

    async def book(_: Mapping[str, Json], key: str) -> Json:
        runs.append(key)
        if len(runs) == 1:
            await anyio.sleep_forever()
        return len(runs)

    async def answer(turn: Turn) -> AsyncIterator[str]:
        yield f"Table {await turn.call_tool('book', {})}."

    house = _House()
    house.parts.calls._agents = {"scripted": ScriptedAgent(answer, [tool("book", book)])}
    async with anyio.create_task_group() as group:
        group.start_soon(house.serve, house.attached("alice"), link)
        await link.do(RequestReply())
        await until(lambda: len(runs) == 1)
        await link.do(Goodbye())
    again = ScriptedLink()
    async with anyio.create_task_group() as group:
        group.start_soon(house.serve, house.attached("alice"), again)
        await again.do(RequestReply())
        assert (await again.until(ev.ReplyDone)).text == "Table 2."
        await again.do(Goodbye())
    again.close()
    assert len(set(runs)) == 2  # what takes the keys elsewhere must not take the second call for the first


async def test_what_a_session_s_tools_did_is_forgotten_with_it(link: ScriptedLink) -> None:
    house = _House()
    intents = house.parts.calls._intents
    intent = Intent("alice", 3, "alice:1:1:1", "book", "{}")
    await intents.begin(intent)
    async with anyio.create_task_group() as group:
        group.start_soon(house.serve, house.attached("alice"), link)
        await link.do(ClearAudio())
        await until(lambda: house.parts.ledger.active == 1)
        assert (await intents.begin(intent)).state is IntentState.UNKNOWN  # as long as the session lives
        await link.do(Goodbye())
    assert (await intents.begin(replace(intent, epoch=1))).state is IntentState.FRESH
