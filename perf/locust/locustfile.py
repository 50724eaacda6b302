"""The Locust users: callers over WebSocket and over gRPC. `python -m perf.locust.soak` runs this file; alone:

    locust -f perf/locust/locustfile.py --headless -u 12 -r 2 -t 60s --host http://127.0.0.1:8080 --records sessions.jsonl

Locust runs on gevent: see `gevent_first`. No test may import this module in its own process.
"""

from __future__ import annotations

import perf.locust.gevent_first  # noqa: F401  # patches the standard library, so it stays above all others

# isort: split

import itertools
import os
import threading
import time
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import gevent  # type: ignore[import-untyped]  # has no stubs installed
from locust import User, events, task

from perf.locust.caller import play_session
from perf.locust.converse_line import ConverseLine
from perf.locust.line import Line
from perf.locust.plan import Habits, plan_session
from perf.locust.record import Outcome, SessionRecord
from perf.locust.websocket_line import WebSocketLine
from runtime.primitives.clock import MonotonicClock
from runtime.primitives.rng import SeededRng

if TYPE_CHECKING:
    from locust.argument_parser import LocustArgumentParser
    from locust.env import Environment

__all__ = ["ConverseCaller", "WebSocketCaller"]

_STOPPING = threading.Event()
_NUMBERS = itertools.count(1)
_CLOCK = MonotonicClock()


def _add_options(parser: LocustArgumentParser) -> None:
    group = parser.add_argument_group("Callers")
    for field in fields(Habits):
        group.add_argument(f"--{field.name.replace('_', '-')}", type=float, default=field.default)
    group.add_argument("--grpc-share", type=float, default=0.3, help="share of callers over gRPC, 0 to 1")
    group.add_argument("--agent", default="front-desk", help="whom gRPC callers ask for")
    group.add_argument("--frame-ms", type=int, default=60, help="audio in a message")
    group.add_argument("--plan-seed", type=int, default=1, help="of what callers do")
    group.add_argument("--records", default="", help="file that gets one JSON line a session")
    group.add_argument("--leave-with-stdin", action="store_true", help="end at once when standard input does")


def _begin(environment: Environment, **_: object) -> None:
    options: Any = environment.parsed_options  # argparse's namespace has no types
    share = options.grpc_share
    WebSocketCaller.weight, ConverseCaller.weight = round(1000 * (1 - share)), round(1000 * share)
    for caller in (WebSocketCaller, ConverseCaller):
        caller.abstract = caller.weight == 0
    environment.user_classes = [each for each in (WebSocketCaller, ConverseCaller) if each.weight]
    _Caller.habits = Habits(**{field.name: getattr(options, field.name) for field in fields(Habits)})
    if options.leave_with_stdin:
        gevent.get_hub().threadpool.spawn(_leave_with_stdin)


def _leave_with_stdin() -> None:
    """In a thread of its own. Whoever started us is gone, so nobody waits for callers to say goodbye, or for a summary."""
    while os.read(0, 1):
        pass
    os._exit(1)


def _stop(**_: object) -> None:
    _STOPPING.set()


class _Caller(User):
    """One caller, who makes one call after another. Reports to Locust how each began and how soon the agent was heard."""

    abstract = True
    wire: ClassVar[str] = ""
    habits: ClassVar[Habits] = Habits()

    def line(self, frame_ms: int) -> Line:
        raise NotImplementedError

    @task
    def call(self) -> None:
        options: Any = self.environment.parsed_options
        number = next(_NUMBERS)
        plan = plan_session(self.habits, SeededRng(options.plan_seed * 1_000_003 + number))
        if _STOPPING.is_set():
            return
        record = SessionRecord(number, self.wire, plan.is_idle, _CLOCK.now_ns())
        play_session(self.line(options.frame_ms), plan, record, _CLOCK, options.frame_ms, _STOPPING.is_set)
        if options.records:
            with Path(options.records).open("a", encoding="utf-8") as file:
                file.write(record.to_line() + "\n")
        self._tell(record)
        if not _STOPPING.is_set():
            time.sleep(plan.between_s)

    def _tell(self, record: SessionRecord) -> None:
        is_good = record.outcome in (Outcome.GOODBYE, Outcome.DISCONNECTED)
        error = None if is_good else RuntimeError(f"{record.outcome.value}: {record.detail}")
        waited_ms = record.startup_ms if record.startup_ms is not None else (record.ended_ns - record.asked_ns) / 1e6
        request = self.environment.events.request
        request.fire(
            request_type=self.wire, name="session", response_time=waited_ms, response_length=0, exception=error, context={}
        )
        for milliseconds in record.first_audio_ms:
            request.fire(
                request_type=self.wire,
                name="first audio",
                response_time=milliseconds,
                response_length=0,
                exception=None,
                context={},
            )


class WebSocketCaller(_Caller):
    """Through the balancer's relay."""

    wire = "websocket"

    def line(self, frame_ms: int) -> Line:
        return WebSocketLine(str(self.environment.host).replace("http", "ws", 1) + "/v1/realtime", frame_ms)


class ConverseCaller(_Caller):
    """By assignment, then to the runtime itself."""

    wire = "grpc"

    def line(self, frame_ms: int) -> Line:
        options: Any = self.environment.parsed_options
        return ConverseLine(str(self.environment.host), options.agent, frame_ms)


events.init_command_line_parser.add_listener(_add_options)  # type: ignore[no-untyped-call]  # locust's hooks are untyped
events.init.add_listener(_begin)  # type: ignore[no-untyped-call]  # locust's hooks are untyped
events.test_stopping.add_listener(_stop)  # type: ignore[no-untyped-call]  # locust's hooks are untyped
