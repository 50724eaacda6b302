"""A gRPC call at a relay process: the control is killed and started again, then its runtime is killed, and the call goes on."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from grpc import aio

from perf.relay_fleet import relay_fleet
from protos.switchboard.v1 import voice_pb2, voice_pb2_grpc

pytestmark = [pytest.mark.e2e, pytest.mark.anyio, pytest.mark.timeout(240)]


async def _interrupted(stream: aio.StreamStreamCall[voice_pb2.ConverseRequest, voice_pb2.ConverseResponse], ordinal: int) -> int:
    """The call is served: a fault of ours is named. Answers the ordinal of the last message; `ordinal` was the one before."""
    with anyio.fail_after(30):
        await stream.write(voice_pb2.ConverseRequest(dtmf="no key"))
        while isinstance(response := await stream.read(), voice_pb2.ConverseResponse):
            ordinal += 1
            assert response.ordinal == ordinal
            if response.WhichOneof("payload") == "error":
                return ordinal
    raise AssertionError(f"the call ended: {await stream.code()}")


async def test_a_grpc_call_at_a_relay_outlives_the_control_and_its_runtime(tmp_path: Path) -> None:  # requirement C3, D1
    async with relay_fleet(
        1, 2, tmp_path, control_arguments=[], relay_arguments=[], runtime_arguments=["--engines", "synthetic"]
    ) as parts, aio.insecure_channel(str(parts.relays[0].ready["public_grpc"])) as channel:  # fmt: skip
        stream = voice_pb2_grpc.VoiceAgentStub(channel).Converse()
        form = voice_pb2.AudioFormat(encoding=voice_pb2.AUDIO_ENCODING_PCM16, sample_rate_hz=16_000)
        await stream.write(voice_pb2.ConverseRequest(config=voice_pb2.SessionConfig(input_format=form)))
        ordinal = await _interrupted(stream, 0)
        names = {str(key): value for key, value in await stream.initial_metadata() or ()}

        parts.fleet.balancer.kill()
        await parts.fleet.balancer.wait()
        ordinal = await _interrupted(stream, ordinal)
        await parts.restart_control()
        await parts.fleet.wait_for(
            "everything told anew",
            lambda seen: seen["totals"]["eligible"] == 2 and sum(each["held"] for each in seen["relays"]) == 1,
            30,
        )
        victim = next(each for each in parts.fleet.runtimes if each.ready["runtime_id"] == names["x-switchboard-runtime"])
        victim.kill()
        ordinal = await _interrupted(stream, ordinal)
        seen = await parts.fleet.wait_for("its call in the books", lambda seen: seen["books"]["active"] == 1, 20)
        assert seen["books"]["moved_in"] == 1
        await stream.write(voice_pb2.ConverseRequest(end=voice_pb2.EndSession()))
        with anyio.fail_after(20):
            while isinstance(await stream.read(), voice_pb2.ConverseResponse):
                pass
            assert (await stream.code()).name == "OK"
