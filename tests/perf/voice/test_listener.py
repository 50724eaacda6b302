"""What a caller heard, with its times."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from perf.voice.listener import Listener

_AUDIO = b64encode(bytes(960)).decode()


def _heard(*events: tuple[float, dict[str, Any]]) -> Listener:
    listener = Listener()
    for at_s, event in events:
        listener.hear(event, at_s)
    return listener


def _created(number: int) -> dict[str, Any]:
    return {"type": "response.created", "response": {"id": f"r{number}"}}


def _audio(number: int) -> dict[str, Any]:
    return {"type": "response.output_audio.delta", "response_id": f"r{number}", "delta": _AUDIO}


def _done(number: int, status: str) -> dict[str, Any]:
    return {"type": "response.done", "response": {"id": f"r{number}", "status": status}}


def test_a_reply_and_what_it_plays() -> None:
    listener = _heard((1.0, _created(1)), (1.1, _audio(1)), (1.2, _audio(1)))
    (reply,) = listener.replies
    assert (reply.first_audio_s, reply.last_audio_s, round(reply.audio_s, 3)) == (1.1, 1.2, 0.04)
    assert round(reply.plays_until_s, 3) == 1.14
    assert listener.running is reply
    listener.hear(_done(1, "completed"), 1.3)
    assert listener.running is None


def test_audio_after_the_end_is_stale_and_counts_as_nothing_else() -> None:
    listener = _heard((1.0, _created(1)), (1.1, _audio(1)), (1.2, _done(1, "cancelled")), (1.3, _audio(1)))
    assert (listener.replies[0].stale_frames, listener.replies[0].last_audio_s) == (1, 1.1)


def test_the_answer_is_the_latest_that_began_after_the_speech_and_stands() -> None:
    listener = _heard((1.0, _created(1)), (1.1, _audio(1)), (1.2, _done(1, "cancelled")))
    assert listener.answer_to(1.0) is None  # taken back
    for at_s, event in ((2.0, _created(2)), (2.1, _audio(2))):
        listener.hear(event, at_s)
    assert listener.answer_to(1.0) is listener.replies[1]
    assert listener.answer_to(2.2) is None  # it began before the speech was over


def test_turns_their_words_and_their_withdrawal() -> None:
    completed = "conversation.item.input_audio_transcription.completed"
    listener = _heard(
        (1.0, {"type": "input_audio_buffer.committed", "item_id": "a"}),
        (1.1, {"type": "conversation.item.deleted", "item_id": "a"}),
        (2.0, {"type": "input_audio_buffer.committed", "item_id": "b"}),
        (2.2, {"type": completed, "item_id": "b", "transcript": "ten of clubs"}),
        (2.3, {"type": "error", "error": {"code": "engine_busy", "message": "later"}}),
    )
    assert [(item.item_id, item.is_withdrawn, item.text) for item in listener.items] == [
        ("a", True, None),
        ("b", False, "ten of clubs"),
    ]
    assert listener.errors == ["engine_busy: later"]
