"""What callers hear on each wire, in the words of this measurement."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from perf.continuity.lines import GrpcLine, Heard, Kind
from protos.switchboard.v1 import voice_pb2 as pb

pytestmark = pytest.mark.anyio


class _Stream:
    def __init__(self) -> None:
        self.said: list[pb.ConverseRequest] = []

    async def write(self, request: pb.ConverseRequest) -> None:
        self.said.append(request)

    async def initial_metadata(self) -> tuple[tuple[str, str], ...]:
        return (("x-switchboard-session", "named"),)


async def test_over_grpc_an_item_is_known_by_the_ordinal_that_its_fault_names() -> None:
    stream = _Stream()
    line = GrpcLine(cast(Any, stream))
    await line.begin("call-1")
    assert line.session_id == "named"
    await line.append(np.zeros(480, np.int16))
    await line.send_item(7)
    await line.append(np.zeros(480, np.int16))
    assert [request.ordinal for request in stream.said] == [1, 2, 3, 4]
    assert [request.WhichOneof("payload") for request in stream.said] == ["config", "audio", "dtmf", "audio"]
    assert stream.said[2].dtmf not in "0123456789*#ABCD", "else it would be a key"

    def fault(ordinal: int) -> pb.ConverseResponse:
        return pb.ConverseResponse(ordinal=9, error=pb.SoftError(code="invalid_value", message="dtmf", ordinal=ordinal))

    assert line.from_response(fault(3)) == [Heard(Kind.ITEM, "9", number=7)]
    assert line.from_response(fault(4)) == [Heard(Kind.ERROR, "9", text="invalid_value: dtmf")]


async def test_over_grpc_what_is_heard() -> None:
    line = GrpcLine(cast(Any, _Stream()))
    chunk = pb.ReplyAudio(chunk=pb.AudioChunk(data=bytes(960)))
    assert line.from_response(pb.ConverseResponse(ordinal=2, generation=3, reply_audio=chunk)) == [
        Heard(Kind.AUDIO, "2", "3", audio_s=0.02)
    ]
    final = pb.Transcript(text="good morning", is_final=True)
    understood = line.from_response(pb.ConverseResponse(ordinal=4, transcript=final))
    assert understood == [Heard(Kind.TRANSCRIPT, "4", text="good morning")]
    done = pb.ReplyDone(status=pb.REPLY_STATUS_COMPLETED, text="You said it.")
    assert line.from_response(pb.ConverseResponse(ordinal=5, generation=3, reply_done=done)) == [
        Heard(Kind.SAID, "5/said", "3", "You said it."),
        Heard(Kind.DONE, "5", "3"),
    ]
    cut = pb.ReplyDone(status=pb.REPLY_STATUS_CANCELLED)
    assert line.from_response(pb.ConverseResponse(ordinal=6, reply_done=cut)) == [Heard(Kind.OTHER, "6")]
