"""How a call over gRPC ends where the caller's last word and our first come together."""

from __future__ import annotations

import contextlib

import anyio
import grpc
import pytest
from grpc import aio

from protos.switchboard.v1 import voice_pb2 as pb
from protos.switchboard.v1 import voice_pb2_grpc
from tests.support.local_runtime import local_runtime

pytestmark = pytest.mark.anyio
_PCM16K = pb.AudioFormat(encoding=pb.AUDIO_ENCODING_PCM16, sample_rate_hz=16_000)


async def test_a_caller_that_half_closes_at_once_hears_that_the_session_ended() -> None:  # found by the fault lab
    """The end comes while our first message is on its way: without its status the caller waited for ever, every second time."""
    async with local_runtime() as local, aio.insecure_channel(local.runtime.grpc_address) as channel:
        stub = voice_pb2_grpc.VoiceAgentStub(channel)
        for _ in range(30):
            stream = stub.Converse()
            await stream.write(pb.ConverseRequest(config=pb.SessionConfig(input_format=_PCM16K)))
            await stream.done_writing()
            with anyio.fail_after(5):
                with contextlib.suppress(aio.AioRpcError):
                    while await stream.read() is not aio.EOF:
                        pass
                assert await stream.code() is grpc.StatusCode.CANCELLED
        await local.until_empty()
        assert dict(local.ended) == {"connection_lost": 30}
