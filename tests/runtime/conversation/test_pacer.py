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


def test_play_out_stands_still_while_it_is_held() -> None:
    pacer = Pacer(lead_ms=100)
    for _ in range(5):
        pacer.leave(0)
    pacer.hold(50 * _MS)
    pacer.hold(60 * _MS)  # a second one changes nothing
    assert pacer.heard_ms(5_000 * _MS) == 50
    pacer.resume(5_000 * _MS)
    assert pacer.heard_ms(5_020 * _MS) == 70
    assert not pacer.leave(5_020 * _MS)  # a hold makes nothing late
    assert pacer.left_ns(5_020 * _MS) == 50 * _MS


def test_what_was_acknowledged_beats_the_estimate_and_runs_on() -> None:
    pacer = Pacer(lead_ms=1_000)
    for _ in range(40):
        pacer.leave(0)
    pacer.acknowledge(100, 300 * _MS)  # the caller's side is 200 ms behind
    assert pacer.heard_ms(350 * _MS) == 150
    pacer.hold(350 * _MS)
    pacer.resume(450 * _MS)
    assert pacer.heard_ms(460 * _MS) == 160
    pacer.acknowledge(10**6, 500 * _MS)
    assert pacer.heard_ms(500 * _MS) == 800  # no more than was sent
