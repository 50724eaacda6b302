"""Our own messages as binary frames: what is refused and how, and the way through the balancer."""

from __future__ import annotations

import pytest
from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from protos.switchboard.v1 import voice_pb2 as pb
from tests.conformance.binary_wire import binary
from tests.conformance.callers import speech
from tests.conformance.grpc_wire import PCM16_24K
from tests.support.closes import close_of
from tests.support.local_runtime import LocalRuntime, enrolled_runtime, local_runtime

pytestmark = pytest.mark.anyio
_PCM8K = pb.AudioFormat(encoding=pb.AUDIO_ENCODING_PCM16, sample_rate_hz=8_000)


def _url(local: LocalRuntime) -> str:
    return local.url.replace("/v1/realtime", "/v1/converse")


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("text", "1002 the message is text"),
        (b"\xff\xff", "1002 the bytes are no ConverseRequest"),
        (pb.ConverseRequest(text="hello").SerializeToString(), "1002 the first message has no config"),
        (pb.ConverseRequest(config=pb.SessionConfig()).SerializeToString(), "1002 config.input_format is missing"),
        (
            pb.ConverseRequest(config=pb.SessionConfig(input_format=PCM16_24K, agent="nobody")).SerializeToString(),
            "1002 config.agent is 'nobody'",
        ),
    ],
)
async def test_what_is_no_configuration_is_refused_by_name(message: str | bytes, words: str) -> None:
    async with local_runtime() as local:
        async with connect(_url(local)) as connection:
            await connection.send(message)
            assert (await close_of(connection)).startswith(words)
        await local.until_empty()
        assert local.ledger.totals.started == 0


async def test_no_configuration_is_no_session() -> None:  # requirement S1
    async with local_runtime(first_message_s=0.2) as local:
        async with connect(_url(local)) as connection:
            assert (await close_of(connection)).startswith("1008 no configuration")
        await local.until_empty()


async def test_audio_of_another_format_is_refused_with_the_expected_one_named() -> None:  # requirement V4
    async with local_runtime() as local, connect(_url(local)) as connection:
        config = pb.ConverseRequest(config=pb.SessionConfig(input_format=PCM16_24K))
        await connection.send(config.SerializeToString())
        await connection.send(pb.ConverseRequest(audio=pb.AudioChunk(data=bytes(320), format=_PCM8K)).SerializeToString())
        assert await close_of(connection) == "1002 audio.format is pcm16 at 8000 Hz; expected: pcm16 at 24000 Hz"


async def test_a_call_through_the_balancer() -> None:
    async with enrolled_runtime() as enrolled:
        public = enrolled.service.url.replace("/v1/realtime", "/v1/converse")
        async with binary(enrolled.local, url=public) as caller:
            await caller.say(speech())
            assert (await caller.until("reply_done")).text == "You said: good morning."
            await caller.say_goodbye()
            assert await caller.until_over() == "1000 closed_by_caller"


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (["switchboard.v1"], "switchboard.v1"),
        (["realtime", "secret-key"], None),
        (["secret-key", "switchboard.v1"], "switchboard.v1"),
    ],
)
async def test_the_subprotocol_is_ours_or_none(offered: list[str], chosen: str | None) -> None:
    async with enrolled_runtime() as enrolled:
        names = [Subprotocol(name) for name in offered]
        for url in (_url(enrolled.local), enrolled.service.url.replace("/v1/realtime", "/v1/converse")):
            async with connect(url, subprotocols=names) as connection:
                assert connection.subprotocol == chosen
