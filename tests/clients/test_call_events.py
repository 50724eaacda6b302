"""Every word of the server's contract has its event."""

from __future__ import annotations

import pytest

from clients.call_events import AgentAudio, CallEvent, Ended, ReplyDone, event_from
from protos.switchboard.v1 import voice_pb2 as pb

_PAYLOADS = [field.name for field in pb.ConverseResponse.DESCRIPTOR.oneofs_by_name["payload"].fields]


@pytest.mark.parametrize("name", _PAYLOADS)
def test_every_payload_is_an_event(name: str) -> None:
    message = pb.ConverseResponse(generation=3)
    getattr(message, name).SetInParent()
    assert isinstance(event_from(message), CallEvent)


def test_what_a_newer_server_says_is_nothing() -> None:
    assert event_from(pb.ConverseResponse()) is None


def test_values_are_carried() -> None:
    done = pb.ReplyDone(status=pb.REPLY_STATUS_WITHDRAWN, text="I")
    assert event_from(pb.ConverseResponse(generation=3, reply_done=done)) == ReplyDone(3, "withdrawn", "I")
    assert event_from(pb.ConverseResponse(ended=pb.SessionEnded(reason="drained"))) == Ended("drained")
    chunk = pb.AudioChunk(data=b"\x01\x00\xff\xff")
    audio = event_from(pb.ConverseResponse(generation=3, reply_audio=pb.ReplyAudio(chunk=chunk)))
    assert isinstance(audio, AgentAudio)
    assert list(audio.samples) == [1, -1]
