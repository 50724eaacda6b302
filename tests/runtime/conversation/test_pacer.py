"""When frames are due, late and heard."""

from __future__ import annotations

from runtime.conversation.pacer import FRAME_MS, Pacer
from runtime.primitives.clock import NS_PER_MS

_MS = NS_PER_MS


def test_the_lead_goes_out_at_once_and_then_one_frame_a_frame() -> None:
    pacer = Pacer(lead_ms=100)
    waits = []
    now = 0
    for _ in range(10):
        wait = pacer.wait_ns(now)
        waits.append(wait // _MS)
        now += wait
        assert not pacer.leave(now)
    assert waits == [0, 0, 0, 0, 0, 0, 20, 20, 20, 20]
    assert pacer.sent_ms == 10 * FRAME_MS


def test_a_late_frame_moves_the_play_out_on() -> None:
    pacer = Pacer(lead_ms=40)
    for _ in range(3):
        pacer.leave(0)
    assert pacer.leave(100 * _MS)  # it should have been played at 60
    assert pacer.heard_ms(100 * _MS) == 60
    assert pacer.heard_ms(110 * _MS) == 70
    assert not pacer.leave(110 * _MS)


def test_no_more_was_heard_than_was_sent() -> None:
    pacer = Pacer(lead_ms=40)
    assert pacer.heard_ms(5) == 0
    pacer.leave(0)
    assert pacer.heard_ms(10 * _MS) == 10
    assert pacer.heard_ms(1_000 * _MS) == FRAME_MS
