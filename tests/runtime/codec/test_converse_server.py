"""What our server says in our own messages: chunks are tagged, ordinals count."""

from __future__ import annotations

from protos.switchboard.v1 import voice_pb2 as pb
from runtime.codec.converse_config import settings_from
from runtime.codec.converse_server import ConverseEncoder
from runtime.dialogue import agent_events as ev

_PCM16K = pb.AudioFormat(encoding=pb.AUDIO_ENCODING_PCM16, sample_rate_hz=16_000)
_SETTINGS = settings_from(pb.SessionConfig(input_format=_PCM16K), "front-desk")


def test_chunks_are_tagged_and_ordinals_have_no_gap() -> None:
    encoder = ConverseEncoder(_SETTINGS)
    events: list[ev.AgentEvent] = [
        ev.SessionOpened("s", 1, "r", _SETTINGS),
        ev.InputCommitted("i", ""),  # not said on this wire
        ev.ReplyStarted(1, "i", ""),
        ev.ReplyAudio(1, bytes(640)),
        ev.ReplyAudio(1, bytes(640)),
        ev.Flush(1),
        ev.ReplyDone(1, ev.ReplyStatus.INTERRUPTED, "", 40),
    ]
    messages = [message for event in events for message in encoder.encode(event)]
    assert [message.ordinal for message in messages] == [1, 2, 3, 4, 5, 6]
    chunks = [message.reply_audio.chunk for message in messages if message.HasField("reply_audio")]
    assert [chunk.media_time_ms for chunk in chunks] == [0, 20]
    assert all(chunk.format == _PCM16K for chunk in chunks)
    assert [message.generation for message in messages[1:]] == [1] * 5


def test_holding_tools_and_withdrawals_have_words() -> None:
    encoder = ConverseEncoder(_SETTINGS)
    events: list[ev.AgentEvent] = [
        ev.OutputHeld(3),
        ev.OutputResumed(3),
        ev.ToolRequested(3, "call_1", "weather", "{}"),
        ev.InputWithdrawn("item"),
        ev.TransferRequested("+4930"),
        ev.ReplyDone(3, ev.ReplyStatus.WITHDRAWN, "", 0),
    ]
    messages = [message for event in events for message in encoder.encode(event)]
    assert [message.WhichOneof("payload") for message in messages] == [
        "held",
        "resumed",
        "tool_request",
        "withdrawn",
        "transfer",
        "reply_done",
    ]
    assert [message.generation for message in messages] == [3, 3, 3, 0, 0, 3]
    assert messages[-1].reply_done.status == pb.REPLY_STATUS_WITHDRAWN
