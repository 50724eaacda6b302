"""A telephone at a runtime, directly and through the balancer: who is let in, what reaches the agent, what counts as heard."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import anyio
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from runtime.codec.twilio_signature import signature_of
from runtime.dialogue.agent import Turn, TurnCause
from runtime.primitives.reasons import EndReason
from tests.conformance.callers import speech
from tests.conformance.twilio_wire import TwilioCaller, twilio
from tests.support.call_parts import ScriptedAgent
from tests.support.closes import close_of
from tests.support.local_runtime import DESK, enrolled_runtime, local_runtime, until
from tests.support.twilio import MEDIA_FORMAT, start_message

pytestmark = pytest.mark.anyio


def _listening_agent(turns: list[Turn]) -> ScriptedAgent:
    async def answer(turn: Turn) -> AsyncIterator[str]:
        turns.append(turn)
        yield "This answer goes on for a good while, so that nobody has to wait for its end. " * 20

    return ScriptedAgent(answer)


async def test_the_stream_s_parameters_reach_the_agent() -> None:  # requirement U1
    turns: list[Turn] = []
    async with local_runtime(_listening_agent(turns)) as local, twilio(local) as caller:
        await caller.say(speech())
        await caller.until("audio")
        assert dict(turns[0].metadata) == {"table": "7", "call_sid": "CA1", "stream_sid": "MZ1"}


async def test_what_the_far_end_marks_is_what_was_heard() -> None:  # requirement V2
    turns: list[Turn] = []
    async with local_runtime(_listening_agent(turns), lead_ms=5_000) as local:
        url = local.url.replace("/v1/realtime", "/v1/twilio")
        async with connect(url, ping_interval=None, max_queue=4096) as connection:
            caller = TwilioCaller(connection, local)
            await caller.configure()
            await caller.say(speech())
            heard = 0
            while heard < 1_000:  # the far end plays a second, whatever has been sent by then
                event = json.loads(await connection.recv())
                if event["event"] == "mark":
                    heard = int(event["mark"]["name"].split(":")[1])
                    await connection.send(json.dumps(event))
            await caller.say(speech(0.6, 1.2))
            with anyio.fail_after(20):
                while len(turns) < 2:
                    await connection.recv()
            said = turns[1].history[-1]
            assert not said.is_complete
            # One second at the tone's pace, whole words; 5 s had been sent.
            assert 5 <= len(said.text) <= 25, said.text


async def test_an_agent_that_greets_speaks_before_the_caller_does() -> None:  # requirement U1
    turns: list[Turn] = []
    agent = _listening_agent(turns)
    async with local_runtime(agent, twilio_greets=True, twilio_idle_timeout_ms=0) as local, twilio(local) as caller:
        await caller.until("audio")
    assert [(turn.text, dict(turn.metadata)["call_sid"]) for turn in turns] == [("", "CA1")]


async def test_a_silent_caller_is_spoken_to() -> None:  # requirement U1
    turns: list[Turn] = []
    async with local_runtime(_listening_agent(turns), twilio_idle_timeout_ms=1_000) as local, twilio(local) as caller:
        await caller.say(bytes(2 * 24_000 * 2))
        await caller.until("audio")
        assert turns[0].cause is TurnCause.SILENCE


async def test_only_signed_streams_are_taken_where_a_secret_is_set() -> None:
    async with local_runtime(twilio_auth_token="hush") as local:
        url = f"ws://{local.runtime.http_address}/v1/twilio"
        with pytest.raises(InvalidStatus) as refused:
            async with connect(url):
                pass
        assert refused.value.response.status_code == 403
        signed = signature_of(f"wss://{local.runtime.http_address}/v1/twilio", "hush")
        async with connect(url, additional_headers={"X-Twilio-Signature": signed}) as connection:
            await connection.send(start_message("MZ1", "CA1", {}))
            await until(lambda: local.ledger.active == 1)


async def test_what_is_wrong_with_a_relayed_request_is_told_and_not_tried_elsewhere() -> None:
    async with enrolled_runtime(twilio_auth_token="hush") as enrolled:
        async with connect(enrolled.service.url.replace("/v1/realtime", "/v1/twilio")) as connection:
            await connection.send(start_message("MZ1", "CA1", {}))
            assert (await close_of(connection)).startswith("1008 bad_signature: X-Twilio-Signature is missing")
        front = enrolled.service.balancer.front
        assert front.statistics()["dial_failures"] == 0
        books = enrolled.service.balancer.fleet.books
        await until(lambda: enrolled.local.ledger.reserved == 0)
        assert books.is_balanced
        assert books.active == 0


async def test_a_stream_of_another_format_is_refused_loudly() -> None:  # requirement V4
    async with local_runtime() as local, connect(f"ws://{local.runtime.http_address}/v1/twilio") as connection:
        await connection.send('{"event": "connected"}')
        await connection.send(start_message("MZ1", "CA1", {}, media_format={**MEDIA_FORMAT, "encoding": "audio/opus"}))
        close = await close_of(connection)
        assert close.startswith("1002 start.mediaFormat")
        assert "expected audio/x-mulaw" in close
        assert local.ledger.totals.started == 0


async def test_a_stream_that_never_starts_is_no_session() -> None:  # requirement S1
    async with local_runtime(first_message_s=0.2) as local:
        async with connect(f"ws://{local.runtime.http_address}/v1/twilio") as connection:
            assert (await close_of(connection)).startswith("1008")
        await local.until_empty()
        assert local.ledger.totals.started == 0


async def test_the_balancer_places_by_the_path() -> None:
    async with enrolled_runtime() as enrolled:
        public = enrolled.service.url.replace("/v1/realtime", "/v1/twilio")
        for path in ("", f"/{DESK}"):
            async with twilio(enrolled.local, url=public + path) as caller:
                await caller.say(speech())
                await caller.until("reply_done")
                await caller.say_goodbye()
                assert await caller.until_over() == "1000 closed_by_caller"
        async with connect(f"{public}/nobody") as connection:
            await connection.send(start_message("MZ1", "CA1", {}))
            assert (await close_of(connection)).startswith("1008 ")
        await until(lambda: dict(enrolled.local.ended) == {EndReason.CLOSED_BY_CALLER: 2})
