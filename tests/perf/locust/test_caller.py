"""A planned session over a line that is played by the test, in real time and without gevent."""  # requirement P1

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from perf.locust.caller import play_session
from perf.locust.line import Heard, LineBroken, LineRefused, OnHeard, Opened
from perf.locust.plan import SessionPlan, Spurt
from perf.locust.record import Outcome, SessionRecord
from runtime.primitives.clock import MonotonicClock

_FRAME_MS = 10


class FakeLine:
    """Answers at the first silent frame after speech; goes on for `reply_frames` frames, or until it is stopped."""

    def __init__(self, reply_frames: int = 5, refuses: str = "", breaks_at: int = 0, vanishes_at: int = 0) -> None:
        self.frames: list[bool] = []
        self.ends: list[str] = []
        self.cancelled = 0
        self._reply_frames = reply_frames
        self._refuses = refuses
        self._breaks_at = breaks_at
        self._vanishes_at = vanishes_at
        self._left = 0

    def open(self, heard: OnHeard) -> Opened:
        if self._refuses:
            raise LineRefused(self._refuses)
        self._heard = heard
        return Opened("session-1", "runtime-1")

    def speak(self, *, is_voiced: bool) -> None:
        if len(self.frames) + 1 == self._breaks_at:
            raise LineBroken("torn")
        if len(self.frames) + 1 == self._vanishes_at:
            self._heard(Heard.GONE, 0.0)
        was_voiced = bool(self.frames) and self.frames[-1]
        self.frames.append(is_voiced)
        if is_voiced and self._left:
            self._stop()
        if was_voiced and not is_voiced:
            self._heard(Heard.REPLY, 0.0)
            self._left = self._reply_frames
        elif self._left:
            self._heard(Heard.AUDIO, 0.02)
            self._left -= 1
            if not self._left:
                self._heard(Heard.REPLY_OVER, 0.0)

    def cancel_reply(self) -> None:
        self.cancelled += 1
        self._stop()

    def goodbye(self) -> None:
        self.ends.append("goodbye")

    def cut(self) -> None:
        self.ends.append("cut")

    def _stop(self) -> None:
        self._left = 0
        self._heard(Heard.REPLY_OVER, 0.0)


def _spurt(pause_s: float = 0.05, talk_s: float = 0.05, *, barges_in: bool = False, cancels: bool = False) -> Spurt:
    return Spurt(pause_s, talk_s, barges_in, cancels)


def _play(line: FakeLine, plan: SessionPlan, is_stopping: Callable[[], bool] = lambda: False) -> SessionRecord:
    clock = MonotonicClock()
    record = SessionRecord(1, "fake", plan.is_idle, clock.now_ns())
    return play_session(line, plan, record, clock, _FRAME_MS, is_stopping)


def test_two_spurts_two_answers_and_a_goodbye() -> None:
    line = FakeLine()
    record = _play(line, SessionPlan(0.6, (_spurt(), _spurt()), disconnects=False, between_s=0.0))
    assert line.ends == ["goodbye"]
    assert (record.outcome, record.runtime_id, record.session_id) == (Outcome.GOODBYE, "runtime-1", "session-1")
    assert (record.spurts, record.replies, record.unanswered) == (2, 2, 0)
    assert record.replied_s == pytest.approx(10 * 0.02)
    assert record.spoken_s == pytest.approx(10 * _FRAME_MS / 1000)
    assert record.listened_s == pytest.approx(len(line.frames) * _FRAME_MS / 1000)
    assert 0.5 <= record.length_s <= 1.5
    assert len(record.first_audio_ms) == 2
    assert all(0 < each < 500 for each in record.first_audio_ms)


def test_an_idle_caller_never_speaks() -> None:
    line = FakeLine()
    record = _play(line, SessionPlan(0.2, (), disconnects=False, between_s=0.0))
    assert not any(line.frames)
    assert record.is_idle
    assert record.listened_s > 0.1


def test_a_cancel_is_sent_once_while_the_agent_speaks() -> None:
    line = FakeLine(reply_frames=1_000)
    record = _play(line, SessionPlan(1.2, (_spurt(cancels=True),), disconnects=False, between_s=0.0))
    assert (line.cancelled, record.cancels, record.barge_ins) == (1, 1, 0)


def test_a_barge_in_speaks_over_the_agent() -> None:
    line = FakeLine(reply_frames=1_000)
    plan = SessionPlan(1.6, (_spurt(barges_in=True), _spurt()), disconnects=False, between_s=0.0)
    record = _play(line, plan)
    assert (record.barge_ins, record.cancels, record.spurts, record.replies) == (1, 0, 2, 2)


def test_a_planned_disconnect_cuts_the_line() -> None:
    line = FakeLine()
    record = _play(line, SessionPlan(0.1, (), disconnects=True, between_s=0.0))
    assert (record.outcome, line.ends) == (Outcome.DISCONNECTED, ["cut"])


def test_when_all_stop_a_caller_says_goodbye_early() -> None:
    line, stopping = FakeLine(), threading.Event()
    stopping.set()
    record = _play(line, SessionPlan(600.0, (), disconnects=True, between_s=0.0), stopping.is_set)
    assert (record.outcome, line.ends) == (Outcome.GOODBYE, ["goodbye"])


def test_a_refusal_is_written_down_with_its_code() -> None:
    line = FakeLine(refuses="no_capacity")
    record = _play(line, SessionPlan(5.0, (), disconnects=False, between_s=0.0))
    assert (record.outcome, record.detail, record.startup_ms) == (Outcome.REFUSED, "no_capacity", None)


@pytest.mark.parametrize("line", [FakeLine(breaks_at=3), FakeLine(vanishes_at=3)])
def test_a_line_that_ends_by_itself_was_dropped(line: FakeLine) -> None:
    record = _play(line, SessionPlan(5.0, (_spurt(),), disconnects=False, between_s=0.0))
    assert record.outcome is Outcome.DROPPED
    assert record.detail
    assert line.ends == ["cut"]
