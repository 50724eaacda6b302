"""Scripted conversations, each on every wire against a real runtime: one session model, whatever carries it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

import anyio
import numpy as np
import pytest

from runtime.engines.synthetic import ToneSynthesizer
from runtime.primitives.reasons import EndReason
from tests.conformance.callers import RATE_HZ, Caller, Refused, Told, speech
from tests.conformance.wires import TELLS, WIRES
from tests.support.local_runtime import LocalRuntime, local_runtime, until

pytestmark = [pytest.mark.anyio]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A telephone, for one, has no text, no tools and no word for an error: what needs those runs on the wires that tell them."""
    if "wire" in metafunc.fixturenames:
        marker = metafunc.definition.get_closest_marker("needs")
        needed = set(marker.args) if marker else set()
        metafunc.parametrize("wire", sorted(name for name in WIRES if needed <= TELLS[name]))


@pytest.fixture
async def local() -> AsyncIterator[LocalRuntime]:
    async with local_runtime() as local:
        yield local


def call(wire: str, local: LocalRuntime, **options: object) -> AbstractAsyncContextManager[Caller]:
    return WIRES[wire](local, **options)


def check_text(caller: Caller, told: Told, text: str) -> None:
    """Where the wire tells what the agent said."""
    if "reply_text" in caller.tells:
        assert told.text == text


def audio_of(caller: Caller, generation: int) -> bytes:
    return b"".join(told.audio for told in caller.of("audio") if told.generation == generation)


def spoken_ms(text: str) -> int:
    return ToneSynthesizer.MS_PER_CHARACTER * len(text)


async def test_a_spoken_turn_is_answered(wire: str, local: LocalRuntime) -> None:  # requirement V1
    async with call(wire, local, session_id="call-1") as caller:
        await caller.say(speech())
        done = await caller.until("reply_done")
        assert caller.told[0] == Told("started", text="call-1")
        kinds = [told.kind for told in caller.told if told.kind not in ("audio", "partial")]
        whole = [
            "started",
            "speech_started",
            "speech_stopped",
            "transcript",
            "reply_started",
            "reply_text",
            "reply_done",
        ]
        assert kinds == [kind for kind in whole if kind in caller.tells]
        reply = "You said: good morning."
        check_text(caller, done, reply)
        if "transcript" in caller.tells:
            assert caller.of("transcript")[0].text == "good morning"
            assert caller.of("reply_text")[0].text == reply
        audio = audio_of(caller, 1)
        assert len(audio) / (RATE_HZ * 2 / 1_000) == pytest.approx(spoken_ms(reply), abs=100)
        loud = np.frombuffer(audio, "<i2").astype(float)
        assert np.sqrt(np.mean(loud**2)) > 1_000
        assert local.ledger.active == 1
        assert local.parts.snapshot().active == 1


@pytest.mark.needs("tool_call")
async def test_a_tool_call_is_visible(wire: str, local: LocalRuntime) -> None:
    local.hears.answer = "look in the book"
    async with call(wire, local) as caller:
        await caller.say(speech())
        done = await caller.until("reply_done")
        assert caller.of("tool_call")[0].text == '{"people": 4}'
        assert caller.of("tool_result")[0].text == '{"free": 4}'
        kinds = [told.kind for told in caller.told]
        assert kinds.index("reply_started") < kinds.index("tool_call") < kinds.index("tool_result") < kinds.index("audio")
        assert done.text == "Found {'free': 4}."


@pytest.mark.needs("tool_request")
async def test_a_tool_of_the_client_s_is_asked_and_answered(wire: str, local: LocalRuntime) -> None:  # requirement V4
    local.hears.answer = "ask the client"
    async with call(wire, local) as caller:
        await caller.say(speech())
        asked = await caller.until("tool_request")
        assert (asked.generation, asked.text) == (1, '{"people": 4}')
        assert not caller.of("reply_done")
        await caller.answer_tool(asked.name, '{"free": 9}')
        done = await caller.until("reply_done")
        assert (done.generation, done.text) == (1, "The client found {'free': 9}.")
        assert audio_of(caller, 1)
        await caller.type("hello")
        assert (await caller.until("reply_done", 2)).text == "You said: hello."


async def test_two_turns_are_two_generations(wire: str, local: LocalRuntime) -> None:
    async with call(wire, local) as caller:
        for turn, words in enumerate(("one", "two"), 1):
            local.hears.answer = words
            await caller.say(speech())
            done = await caller.until("reply_done", turn)
            assert done.generation == turn
            check_text(caller, done, f"You said: {words}.")
            assert audio_of(caller, turn)
        generations = [told.generation for told in caller.of("audio")]
        assert generations == sorted(generations)


async def test_nothing_of_a_dead_reply_follows_a_barge_in(wire: str) -> None:  # requirement V2, bug R47, R50, R51
    async with local_runtime(lead_ms=40) as local:
        local.hears.answer = "a long story"
        async with call(wire, local) as caller:
            await caller.say(speech())
            await caller.until("audio", 10)
            local.hears.answer = "stop"
            await caller.say(speech(0.4, 0))
            flush = await caller.until("flush")
            assert flush.generation == 1
            await caller.say(speech(0.1, 1.2))
            done = await caller.until("reply_done", 2)
            check_text(caller, done, "You said: stop.")
            at = caller.told.index(flush)
            after = [told for told in caller.told[at:] if told.kind in ("audio", "reply_text")]
            assert {told.generation for told in after} == {2}
            first = caller.of("reply_done")[0]
            assert "This is a long answer".startswith(first.text[:21])
            assert len(first.text) < 100
            assert len(audio_of(caller, 1)) < 5 * 2 * RATE_HZ, "of a minute and more"


async def test_a_word_of_assent_holds_the_agent_and_does_not_stop_it(wire: str) -> None:  # requirement V2
    async with local_runtime(lead_ms=40) as local:
        local.hears.answer = "a long story"
        async with call(wire, local) as caller:
            await caller.say(speech())
            await caller.until("audio", 30)
            local.hears.answer = "uh huh"
            await caller.say(speech(0.3, 1.0))
            if "held" in caller.tells:
                held, resumed = await caller.until("held"), await caller.until("resumed")
                assert held.generation == resumed.generation == 1
                between = caller.told[caller.told.index(held) : caller.told.index(resumed)]
                assert not [told for told in between if told.kind == "audio"]
            await caller.until("audio", len(caller.of("audio")) + 60)
            assert not caller.of("flush")
            assert not caller.of("reply_done")
            assert {told.generation for told in caller.of("audio")} == {1}


async def test_an_agent_ends_the_call_when_its_last_word_was_said(wire: str, local: LocalRuntime) -> None:  # requirement U1
    async with call(wire, local) as caller:
        await caller.type("bye")
        status = await caller.until_over()
        assert status == ("OK" if wire == "grpc" else "1000 closed_by_agent")
        assert len(audio_of(caller, 1)) / (RATE_HZ * 2 / 1_000) == pytest.approx(spoken_ms("Goodbye."), abs=100)
        assert len(caller.of("reply_done")) == 1
        if wire in ("grpc", "binary"):
            assert caller.told[-1] == Told("ended", text="closed_by_agent")
    await local.until_ended(EndReason.CLOSED_BY_AGENT)


@pytest.mark.needs("transfer")
async def test_an_agent_hands_the_call_on(wire: str, local: LocalRuntime) -> None:  # requirement U1
    async with call(wire, local) as caller:
        await caller.type("reception please")
        assert (await caller.until("transfer")).text == "reception"
        assert (await caller.until("reply_done")).text == "One moment."


async def test_a_typed_turn_is_answered(wire: str, local: LocalRuntime) -> None:
    async with call(wire, local) as caller:
        await caller.type("hello there")
        done = await caller.until("reply_done")
        check_text(caller, done, "You said: hello there.")
        assert audio_of(caller, 1)


async def test_a_goodbye_ends_the_session(wire: str, local: LocalRuntime) -> None:
    async with call(wire, local) as caller:
        await caller.say(speech())
        await caller.until("reply_done")
        await caller.say_goodbye()
        assert await caller.until_over() in ("1000", "1000 closed_by_caller", "OK")
    await local.until_ended(EndReason.CLOSED_BY_CALLER)
    assert (local.ledger.active, local.ledger.totals.started) == (0, 1)


async def test_a_goodbye_while_the_agent_speaks_ends_it_at_once(wire: str) -> None:
    async with local_runtime(lead_ms=40) as local, call(wire, local) as caller:
        await caller.type("a long story")
        await caller.until("audio")
        await caller.say_goodbye()
        await caller.until_over()
        await local.until_ended(EndReason.CLOSED_BY_CALLER)


@pytest.mark.parametrize("moment", ["silent", "speaking", "hearing"])
async def test_a_lost_connection_is_not_a_goodbye(wire: str, moment: str) -> None:  # bug R2, R12, R57
    async with local_runtime(lead_ms=40) as local:
        async with call(wire, local) as caller:
            await caller.until("started")
            await until(lambda: local.ledger.active == 1)
            if moment == "speaking":
                await caller.type("a long story")
                await caller.until("audio")
            elif moment == "hearing":
                await caller.say(speech(0.5, 0))
                if "speech_started" in caller.tells:
                    await caller.until("speech_started")
            caller.vanish()
            await local.until_ended(EndReason.CONNECTION_LOST)
        assert dict(local.ended) == {EndReason.CONNECTION_LOST: 1}
        assert local.ledger.active == 0


async def test_a_session_that_the_server_ends_says_why(wire: str) -> None:
    async with local_runtime(maximum_s=0.3) as local, call(wire, local) as caller:
        status = await caller.until_over()
        if "ended" in caller.tells:
            assert caller.told[-1] == Told("ended", text="session_expired" if wire.startswith("realtime") else "maximum_length")
        assert status == ("OK" if wire == "grpc" else "1001 maximum_length")
        assert dict(local.ended) == {EndReason.MAXIMUM_LENGTH: 1}


async def test_a_drained_session_is_told(wire: str) -> None:
    async with local_runtime(drain_timeout_s=0.0) as local, call(wire, local) as caller:
        await until(lambda: local.ledger.active == 1)
        local.runtime.leave()
        status = await caller.until_over()
        if "ended" in caller.tells:
            assert caller.told[-1].text == ("server_draining" if wire.startswith("realtime") else "drained")
        assert status == ("UNAVAILABLE" if wire == "grpc" else "1012 drained")
        assert dict(local.ended) == {EndReason.DRAINED: 1}


async def test_only_the_first_valid_message_makes_a_session(wire: str, local: LocalRuntime) -> None:  # requirement S1
    async with call(wire, local, configures=False) as caller:
        if wire.startswith("realtime"):
            await caller.send_nonsense()
            await caller.until("error")
            assert (local.ledger.active, local.ledger.reserved) == (0, 1)
            await caller.type("hello")
            await caller.until("reply_done")
            assert (local.ledger.active, local.ledger.reserved) == (1, 0)
        else:  # there the first message is the configuration (Twilio: connected or start), or there is no call
            await caller.send_nonsense()
            status = await caller.until_over()
            assert status == "INVALID_ARGUMENT" if wire == "grpc" else status.startswith("1002 ")
            assert local.ledger.totals.started == 0
    await local.until_empty()


async def test_an_unknown_message_is_answered_and_the_call_goes_on(wire: str, local: LocalRuntime) -> None:
    async with call(wire, local) as caller:
        await caller.send_nonsense()
        if "error" in caller.tells:
            assert (await caller.until("error")).text == "unknown_event"
        await caller.type("hello")
        await caller.until("reply_done")


async def test_a_duplicate_session_id_is_refused_and_its_owner_keeps_it(wire: str, local: LocalRuntime) -> None:
    async with call(wire, local, session_id="mine") as owner:
        await until(lambda: local.ledger.active == 1)
        with pytest.raises(Refused) as refused:
            async with call(wire, local, session_id="mine"):
                pass
        assert refused.value.status == ("ALREADY_EXISTS" if wire == "grpc" else "409")
        await owner.type("still here")
        await owner.until("reply_done")
        assert local.ledger.totals.started == 1
    await local.until_empty()


@pytest.mark.parametrize("session_id", ["a b", "x" * 129, "ä"])
async def test_a_bad_session_id_is_refused(wire: str, session_id: str, local: LocalRuntime) -> None:
    with pytest.raises(Refused) as refused:
        async with call(wire, local, session_id=session_id):
            pass
    assert refused.value.status == ("INVALID_ARGUMENT" if wire == "grpc" else "400")
    assert local.ledger.reserved == 0


async def test_a_full_runtime_refuses_and_says_when_to_come_again(wire: str) -> None:  # bug R23
    async with local_runtime(hard_limit=1, emergency_limit=1) as local:
        async with call(wire, local):
            await until(lambda: local.ledger.active == 1)
            with pytest.raises(Refused) as refused:
                async with call(wire, local):
                    pass
            assert refused.value.status == ("RESOURCE_EXHAUSTED" if wire == "grpc" else "503")
            assert refused.value.reason == "limit"
            assert refused.value.retry_ms == 1_000
            assert local.ledger.totals.refused == {"limit": 1}
        await local.until_empty()
        async with call(wire, local) as later:
            await later.type("hello")
            await later.until("reply_done")


@pytest.mark.needs("reply_text")
async def test_callers_are_told_apart(wire: str, local: LocalRuntime) -> None:
    answers: dict[str, str] = {}

    async def talk(name: str) -> None:
        async with call(wire, local, session_id=name) as caller:
            await caller.type(f"this is {name}")
            answers[name] = (await caller.until("reply_done")).text

    async with anyio.create_task_group() as group:
        for number in range(8):
            group.start_soon(talk, f"caller-{number}")
    assert answers == {name: f"You said: this is {name}." for name in answers}
    assert len(answers) == 8
    await local.until_empty()
