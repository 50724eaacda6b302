"""The Realtime wire live: what is particular to it, and so in no conversation that runs on every wire."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from runtime.dialogue.agent import Turn
from tests.conformance.callers import speech
from tests.support.call_parts import ScriptedAgent
from tests.support.local_runtime import LocalRuntime, enrolled_runtime, local_runtime

pytestmark = pytest.mark.anyio


class _Client:
    """Keeps what came; `until` reads on."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.told: list[dict[str, Any]] = []

    async def send(self, kind: str, **fields: Any) -> None:
        await self.connection.send(json.dumps({"type": kind, **fields}))

    async def until(self, kind: str) -> dict[str, Any]:
        """The next event of that kind."""
        with anyio.fail_after(20):
            while True:
                event: dict[str, Any] = json.loads(await self.connection.recv())
                assert event["event_id"]
                self.told.append(event)
                if event["type"] == kind:
                    return event

    async def error(self) -> dict[str, Any]:
        error: dict[str, Any] = (await self.until("error"))["error"]
        return error

    async def add(self, text: str, role: str = "user", **fields: Any) -> None:
        kind = "output_text" if role == "assistant" else "input_text"
        item = {"type": "message", "role": role, "content": [{"type": kind, "text": text}], **fields}
        await self.send("conversation.item.create", item=item)

    async def append(self, pcm: bytes) -> None:
        for start in range(0, len(pcm), 4_800):
            await self.send("input_audio_buffer.append", audio=b64encode(pcm[start : start + 4_800]).decode())

    @property
    def kinds(self) -> list[str]:
        return [event["type"] for event in self.told]


@asynccontextmanager
async def _calling(local: LocalRuntime, **options: Any) -> AsyncIterator[_Client]:
    async with connect(local.url, **options) as connection:
        yield _Client(connection)


def _remembering(turns: list[Turn]) -> ScriptedAgent:
    async def answer(turn: Turn) -> AsyncIterator[str]:
        turns.append(turn)
        yield "Noted."

    return ScriptedAgent(answer)


async def test_by_hand_nothing_happens_until_it_is_asked_for() -> None:  # requirement V4
    async with local_runtime() as local, _calling(local) as client:
        await client.send("session.update", session={"type": "realtime", "audio": {"input": {"turn_detection": None}}})
        assert (await client.until("session.updated"))["session"]["audio"]["input"]["turn_detection"] is None
        await client.append(speech())
        await client.send("input_audio_buffer.commit")
        await client.until("conversation.item.input_audio_transcription.completed")
        assert "input_audio_buffer.speech_started" not in client.kinds
        assert "response.created" not in client.kinds
        await client.send("response.create")
        done = await client.until("response.done")
        assert done["response"]["output"][0]["content"][0]["transcript"] == "You said: good morning."


async def test_the_codes_that_clients_know_and_whose_fault_it_was() -> None:  # bug R54
    async with local_runtime(lead_ms=100) as local, _calling(local) as client:
        await client.send("response.cancel", event_id="e1")
        assert (error := await client.error())["code"] == "response_cancel_not_active"
        assert error["event_id"] == "e1"
        await client.send("input_audio_buffer.commit", event_id="e2")
        assert (error := await client.error())["code"] == "input_audio_buffer_commit_empty"
        assert error["event_id"] == "e2"
        await client.add("a long story", id="mine")
        await client.send("response.create")
        await client.until("response.output_audio.delta")
        await client.send("response.create", event_id="e3")
        assert (error := await client.error())["code"] == "conversation_already_has_active_response"
        assert error["event_id"] == "e3"
        await client.add("again", id="mine", event_id="e4")
        assert (await client.error())["code"] == "item_create_duplicate_item_id"
        await client.send("response.cancel")
        assert (await client.until("response.done"))["response"]["status"] == "cancelled"
        await client.add("hello")
        await client.send("response.create")
        assert (await client.until("response.done"))["response"]["status"] == "completed"


async def test_a_truncation_past_the_end_is_taken_for_the_end() -> None:  # bug R43
    async with local_runtime() as local, _calling(local) as client:
        await client.add("hello")
        await client.send("response.create")
        done = await client.until("response.done")
        item_id = done["response"]["output"][0]["id"]
        await client.send("conversation.item.truncate", item_id=item_id, content_index=0, audio_end_ms=10_000_000)
        truncated = await client.until("conversation.item.truncated")
        sent = sum(event["type"] == "response.output_audio.delta" for event in client.told) * 20
        assert sent - 20 <= truncated["audio_end_ms"] <= sent
        await client.send("conversation.item.truncate", item_id="of another session", content_index=0, audio_end_ms=1)
        assert (await client.error())["code"] == "item_truncate_invalid_item_id"
        await client.add("still here")
        await client.send("response.create")
        await client.until("response.done")


async def test_what_a_client_puts_in_and_takes_out_is_what_the_agent_knows() -> None:
    turns: list[Turn] = []
    async with local_runtime(_remembering(turns)) as local, _calling(local) as client:
        await client.add("Be kind.", role="system", id="rule")
        await client.add("I am Ada.", id="name")
        await client.add("Good day, Ada.", role="assistant", id="greeting")
        await client.send("conversation.item.delete", item_id="rule")
        assert (await client.until("conversation.item.deleted"))["item_id"] == "rule"
        await client.send("conversation.item.retrieve", item_id="name")
        retrieved = (await client.until("conversation.item.retrieved"))["item"]
        assert retrieved["content"] == [{"type": "input_text", "text": "I am Ada."}]
        await client.add("Who am I?")
        await client.send("response.create", response={"instructions": "Answer in a word.", "metadata": {"n": "1"}})
        done = (await client.until("response.done"))["response"]
        assert done["metadata"] == {"n": "1"}
        (turn,) = turns
        assert [(said.role.value, said.text) for said in turn.history] == [("caller", "I am Ada."), ("agent", "Good day, Ada.")]
        assert (turn.text, turn.instructions) == ("Who am I?", "Answer in a word.")


async def test_a_reply_as_text_costs_no_speech() -> None:
    async with local_runtime() as local, _calling(local) as client:
        await client.send("session.update", session={"type": "realtime", "output_modalities": ["text"]})
        await client.add("hello")
        await client.send("response.create")
        done = (await client.until("response.done"))["response"]
        assert done["output"][0]["content"] == [{"type": "output_text", "text": "You said: hello."}]
        assert not [kind for kind in client.kinds if "audio" in kind.removeprefix("input_")]


async def test_usage_counts_what_was_heard_and_spoken() -> None:
    async with local_runtime() as local, _calling(local) as client:
        await client.append(speech(1.0, 1.2))
        usage = (await client.until("response.done"))["response"]["usage"]
        spoken_ms = 20 * sum(event["type"] == "response.output_audio.delta" for event in client.told)
        assert usage["output_tokens"] == usage["output_token_details"]["audio_tokens"]
        assert spoken_ms // 50 - 1 <= usage["output_tokens"] <= spoken_ms // 50
        assert 10 <= usage["input_tokens"] <= 25
        assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]


@pytest.mark.parametrize("is_relayed", [False, True], ids=["direct", "relayed"])
@pytest.mark.parametrize(
    ("offered", "chosen", "is_beta"),
    [
        ([], None, False),
        (["realtime", "openai-insecure-api-key.secret"], "realtime", False),
        (["openai-insecure-api-key.secret", "realtime", "openai-beta.realtime-v1"], "realtime", True),
        (["openai-insecure-api-key.secret"], None, False),
    ],
)
async def test_a_browser_s_offers(offered: list[str], chosen: str | None, is_beta: bool, is_relayed: bool) -> None:
    """A key that is offered as a subprotocol is never echoed, and what cannot be selected may still choose the dialect."""
    async with enrolled_runtime() as enrolled:
        url = enrolled.service.url if is_relayed else enrolled.local.url
        async with connect(url, subprotocols=[Subprotocol(name) for name in offered] or None) as connection:
            assert connection.subprotocol == chosen
            session = (await _Client(connection).until("session.created"))["session"]
            assert ("input_audio_format" in session) is is_beta


@pytest.mark.parametrize("is_relayed", [False, True], ids=["direct", "relayed"])
async def test_the_dialect_is_the_header_s(is_relayed: bool) -> None:  # requirement V4
    async with enrolled_runtime() as enrolled:
        url = enrolled.service.url if is_relayed else enrolled.local.url
        async with connect(url, additional_headers={"OpenAI-Beta": "realtime=v1"}) as connection:
            client = _Client(connection)
            await client.send("session.update", session={"turn_detection": {"type": "server_vad", "threshold": 7}}, event_id="e")
            error = await client.error()
            assert (error["param"], error["event_id"]) == ("session.turn_detection.threshold", "e")
            assert "session.turn_detection.threshold is 7.0; allowed: 0.05 to 0.95" in error["message"]
            await client.add("hello")
            await client.send("response.create", response={"modalities": ["text"]})
            await client.until("response.done")
            assert "response.text.delta" in client.kinds
            assert "conversation.item.created" in client.kinds
