"""Plays a planned session over a line, frame by frame at the pace of a real caller, and writes down what came of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from enum import Enum, auto
from typing import Final

from perf.locust.line import Heard, Line, LineBroken, LineRefused
from perf.locust.plan import SessionPlan, Spurt
from perf.locust.record import Outcome, SessionRecord
from runtime.primitives.clock import NS_PER_MS, NS_PER_S, Clock

__all__ = ["play_session"]

_ANSWER_S: Final = 6.0
"""A caller who hears nothing for so long after a spurt speaks again; the answer counts as missing."""
_CANCEL_AFTER_S: Final = 0.4
_BARGE_IN_AFTER_S: Final = 0.6


class _Doing(Enum):
    PAUSING = auto()
    TALKING = auto()
    WAITING = auto()
    """For the answer's first sound, or, once there was one, for its end."""


class _Caller:
    """The caller's side of one session. The listening thread only sets fields that are read between two frames."""

    def __init__(self, line: Line, plan: SessionPlan, record: SessionRecord, clock: Clock, frame_ms: int) -> None:
        self._line = line
        self._plan = plan
        self._record = record
        self._clock = clock
        self._frame_s = frame_ms / 1000
        self.is_gone = threading.Event()
        self._reply_since_ns = 0
        """The first sound of the running reply; 0: none."""
        self._is_over = False
        self._spoke_ns = 0
        self._awaits_answer = False
        self._has_cancelled = False

    def heard(self, what: Heard, seconds: float) -> None:
        match what:
            case Heard.AUDIO:
                self._record.replied_s += seconds
                if not self._reply_since_ns:
                    self._reply_since_ns = self._clock.now_ns()
                    if self._awaits_answer:
                        self._record.first_audio_ms.append(round((self._reply_since_ns - self._spoke_ns) / NS_PER_MS, 1))
            case Heard.REPLY:
                self._record.replies += 1
                self._reply_since_ns, self._is_over = 0, False
            case Heard.REPLY_OVER:
                self._is_over = True
            case Heard.GONE:
                self.is_gone.set()

    def talk_until(self, end_ns: int, is_stopping: Callable[[], bool]) -> None:
        """Frames at their times until the end is there. Raises LineBroken, also where the far side ended it."""
        spurts = iter(self._plan.spurts)
        spurt: Spurt | None = next(spurts, None)
        doing, left_s = _Doing.PAUSING, spurt.pause_s if spurt else 0.0
        began_ns = self._clock.now_ns()
        frames = 0
        while (now_ns := self._clock.now_ns()) < end_ns and not is_stopping():
            if self.is_gone.is_set():
                raise LineBroken("the far side ended it")
            if spurt is not None and doing is _Doing.WAITING:
                following = self._after(spurt, now_ns)
                if following is not None:
                    is_barge_in, spurt = following, next(spurts, None)
                    doing, left_s = _Doing.PAUSING, 0.0 if is_barge_in or spurt is None else spurt.pause_s
            if spurt is not None and left_s <= 0 and doing is not _Doing.WAITING:
                if doing is _Doing.PAUSING:
                    doing, left_s = _Doing.TALKING, spurt.talk_s
                    self._begin_spurt()
                else:
                    doing = _Doing.WAITING
                    self._begin_waiting(now_ns)
            is_voiced = doing is _Doing.TALKING
            self._line.speak(is_voiced=is_voiced)
            self._record.listened_s += self._frame_s
            self._record.spoken_s += self._frame_s if is_voiced else 0.0
            left_s -= self._frame_s
            frames += 1
            late_ns = self._clock.now_ns() - (began_ns + int(frames * self._frame_s * NS_PER_S))
            if late_ns < 0:
                time.sleep(-late_ns / NS_PER_S)

    def _begin_spurt(self) -> None:
        self._record.spurts += 1
        self._awaits_answer = False
        self._has_cancelled = False

    def _begin_waiting(self, now_ns: int) -> None:
        # What was heard while the caller spoke belongs to the answer before.
        self._reply_since_ns, self._is_over = 0, False
        self._spoke_ns, self._awaits_answer = now_ns, True

    def _after(self, spurt: Spurt, now_ns: int) -> bool | None:
        """None: still waiting. Else the next spurt's turn has come; True: it begins while the agent speaks."""
        if not self._reply_since_ns:
            if now_ns - self._spoke_ns < _ANSWER_S * NS_PER_S:
                return None
            self._record.unanswered += 1
            return False
        since_s = (now_ns - self._reply_since_ns) / NS_PER_S
        if self._is_over:
            return False
        if spurt.cancels and not self._has_cancelled and since_s >= _CANCEL_AFTER_S:
            self._has_cancelled = True
            self._record.cancels += 1
            self._line.cancel_reply()
        elif spurt.barges_in and since_s >= _BARGE_IN_AFTER_S:
            self._record.barge_ins += 1
            return True
        return None


def play_session(
    line: Line, plan: SessionPlan, record: SessionRecord, clock: Clock, frame_ms: int, is_stopping: Callable[[], bool]
) -> SessionRecord:
    """Plays one session from asking to the end and answers its record, filled in. Blocks for the session's length.

    `is_stopping` ends it early, with a goodbye. Never raises for what the far side does.
    """
    caller = _Caller(line, plan, record, clock, frame_ms)
    try:
        opened = line.open(caller.heard)
        record.started_ns = clock.now_ns()
        record.session_id, record.runtime_id = opened.session_id, opened.runtime_id
        caller.talk_until(record.started_ns + int(plan.length_s * NS_PER_S), is_stopping)
        if plan.disconnects and not is_stopping():
            record.outcome = Outcome.DISCONNECTED
            line.cut()
        else:
            record.outcome = Outcome.GOODBYE
            line.goodbye()
    except LineRefused as refused:
        record.outcome, record.detail = Outcome.REFUSED, str(refused)
        line.cut()
    except LineBroken as broken:
        record.outcome, record.detail = Outcome.DROPPED, str(broken)
        line.cut()
    record.ended_ns = clock.now_ns()
    return record
