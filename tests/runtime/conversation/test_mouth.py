"""The agent's audio: in order, in frames, one piece made ahead, and how much of it was heard."""

from __future__ import annotations

import anyio
import pytest

from runtime.conversation.mouth import Mouth
from runtime.engines.ports import Samples
from runtime.engines.synthetic import ToneSynthesizer
from tests.support.clocks import ManualClock

pytestmark = pytest.mark.anyio


class _Player:
    def __init__(self) -> None:
        self.frames: list[bytes] = []

    async def play(self, frame: bytes) -> None:
        self.frames.append(frame)


def _mouth(player: _Player, rate_hz: int = 24_000, synthesizer: ToneSynthesizer | None = None) -> Mouth:
    return Mouth(synthesizer or ToneSynthesizer(), rate_hz, 1_000_000, ManualClock(), player.play, lambda: None)


@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 24_000])
async def test_all_that_was_said_is_played_in_frames(rate_hz: int) -> None:
    player = _Player()
    mouth = _mouth(player, rate_hz)
    with mouth:
        async with anyio.create_task_group() as group:
            group.start_soon(mouth.run)
            await mouth.say("ten chars.")
            await mouth.say("  ")  # nothing to pronounce
            await mouth.say("and ten m.")
            mouth.finish()
    assert mouth.sent_ms == 1_200
    assert {len(frame) for frame in player.frames} == {rate_hz // 50 * 2}


async def test_what_was_heard_is_cut_at_words() -> None:
    mouth = _mouth(_Player())
    with mouth:
        async with anyio.create_task_group() as group:
            group.start_soon(mouth.run)
            await mouth.say("one two.")
            await mouth.say("  ")  # without a sound, as a picture in a language model's answer
            await mouth.say("three four.")
            mouth.finish()
    assert mouth.heard_text(0) == ""
    assert mouth.heard_text(300) == "one"
    assert mouth.heard_text(480) == "one two."
    assert mouth.heard_text(480 + 400) == "one two. three"
    assert mouth.heard_text(10**6) == "one two. three four."


async def test_at_most_a_few_pieces_are_made_ahead_of_play_out() -> None:
    made: list[str] = []

    class _Counting(ToneSynthesizer):
        async def synthesize(self, text: str, *, is_first: bool = False) -> Samples:
            made.append(text)
            assert is_first == (len(made) == 1)
            return await super().synthesize(text, is_first=is_first)

    held = anyio.Event()
    mouth: Mouth

    async def play(_: bytes) -> None:
        held.set()
        await anyio.sleep_forever()

    mouth = Mouth(_Counting(), 24_000, 200, ManualClock(), play, lambda: None)
    with mouth:
        async with anyio.create_task_group() as group:
            group.start_soon(mouth.run)
            for number in range(20):
                await mouth.say(f"piece {number}")
            with anyio.fail_after(20):
                await held.wait()
            await anyio.wait_all_tasks_blocked()
            assert len(made) <= 4  # one playing, two waiting, one made
            group.cancel_scope.cancel()


async def test_while_it_is_held_no_frame_leaves_and_then_it_goes_on_where_it_stopped() -> None:  # requirement V2
    frames: list[bytes] = []
    mouth: Mouth

    async def play(frame: bytes) -> None:
        frames.append(frame)
        if len(frames) == 3:
            mouth.hold()

    mouth = Mouth(ToneSynthesizer(), 24_000, 1_000_000, ManualClock(), play, lambda: None)
    with mouth:
        async with anyio.create_task_group() as group:
            group.start_soon(mouth.run)
            await mouth.say("ten chars.")
            mouth.finish()
            await anyio.wait_all_tasks_blocked()
            assert (len(frames), mouth.sent_ms) == (3, 60)
            mouth.resume()
    assert len(frames) == 30
    tone = await ToneSynthesizer().synthesize("ten chars.")
    assert b"".join(frames) == tone.astype("<i2").tobytes()


async def test_a_hold_behind_the_last_frame_keeps_the_reply_open() -> None:
    """All frames have left when it is held: they may still be thrown away, so it is not over."""
    mouth, is_over = _mouth(_Player()), False

    async def run() -> None:
        nonlocal is_over
        await mouth.run()
        is_over = True

    with mouth:
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await mouth.say("ten chars.")
            await anyio.wait_all_tasks_blocked()
            assert mouth.sent_ms == 600
            mouth.hold()
            mouth.finish()
            await anyio.wait_all_tasks_blocked()
            assert not is_over
            mouth.resume()
    assert is_over
