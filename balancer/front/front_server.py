"""The public port: assignments, WebSocket upgrades, health. One owner of every caller's connection and of every relay."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import anyio
import anyio.abc
import structlog

from balancer.front.assignment import assignment_document
from balancer.front.call_page import call_page
from balancer.front.dial import DialFailed, RuntimeConnection, UpgradeRefused, dial_runtime
from balancer.front.front_rule import FrontRule
from balancer.front.http_caller import HttpCaller, WholeRequest
from balancer.front.move_counts import MoveObserver
from balancer.front.needs import is_telephone_path, is_voice_path, needs_from_json, needs_from_query, needs_from_start
from balancer.front.opening import CallerGone, Opening
from balancer.front.places import Places
from balancer.front.relayed_calls import RelayedCalls
from balancer.front.responses import HttpError, error_response, json_response
from balancer.front.returns import is_return, resume_key_of, return_of
from balancer.front.upgrade import Upgrade, check_upgrade, switching_response
from balancer.placement.errors import PlacementRefused, RefusalCode
from balancer.placement.placement import Placement
from balancer.placement.reservation import Door
from runtime.primitives.clock import NS_PER_MS, NS_PER_S, Clock
from runtime.primitives.rng import Rng

__all__ = ["FrontServer"]

_DIALS: Final = 3
_OVER_LIMIT: Final = 256
"""Connections beyond the limit that still get their 503 after their request; those beyond are cut off at once."""
_TOO_MANY: Final = HttpError(503, "too_many_connections", "too many connections", [("retry-after", "1")])
_ANSWER_TIMEOUT_NS: Final = 5 * NS_PER_S


class FrontServer:
    """Start with `run` in a task group; it ends only by cancellation, after `drain` for an orderly end."""

    def __init__(
        self,
        placer: Places,
        is_ready: Callable[[], bool],
        rule: FrontRule,
        clock: Clock,
        rng: Rng,
        new_session_id: Callable[[], str],
        log: structlog.typing.FilteringBoundLogger,
        observer: MoveObserver,
        is_leaving: Callable[[str, int], bool],
    ) -> None:
        """`is_leaving`: whether a runtime life (id, incarnation) takes its leave, so that its calls should move."""
        self.clock = clock
        self.calls = RelayedCalls(placer, rule, clock, rng, log, observer, is_leaving)
        self._placer = placer
        self._is_ready = is_ready
        self._rule = rule
        self._new_session_id = new_session_id
        self._log = log
        self._tasks: anyio.abc.TaskGroup | None = None
        self._callers: set[HttpCaller] = set()
        self._server: asyncio.Server | None = None
        self._dial_failures = 0
        self._bad_requests = 0

    async def run(self, listener: socket.socket, started: Callable[[], None], tls: ssl.SSLContext | None = None) -> None:
        """Serves on a bound socket, with TLS where a context is given, until cancelled; then every connection is aborted."""
        loop = asyncio.get_running_loop()
        try:
            async with anyio.create_task_group() as tasks:
                self._tasks = self.calls.tasks = tasks
                self._server = await loop.create_server(
                    lambda: HttpCaller(self), sock=listener, backlog=1024, ssl=tls,
                    ssl_handshake_timeout=None if tls is None else self._rule.head_timeout_ms / 1000,
                )  # fmt: skip
                started()
                await self._tend()
        finally:
            if self._server is not None:
                self._server.close()
            self.calls.abort()
            for caller in list(self._callers):
                caller.transport.abort()

    async def drain(self, timeout_s: float) -> None:
        """Takes nothing new, lets relayed calls finish for `timeout_s`, then closes them with 1012."""
        if self._server is not None:
            self._server.close()
        await self.calls.drain(timeout_s)

    def statistics(self) -> Mapping[str, float]:
        return {
            **self.calls.statistics(),
            "connections": len(self._callers) + len(self.calls),
            "dial_failures": self._dial_failures + self.calls.searcher.dial_failures,
            "bad_requests": self._bad_requests,
        }

    # What callers' connections tell their owner

    @property
    def is_full(self) -> bool:
        return len(self._callers) + len(self.calls) >= self._rule.max_connections

    def now_ns(self) -> int:
        return self.clock.now_ns()

    def bad_request(self) -> None:
        self._bad_requests += 1

    def caller_came(self, caller: HttpCaller) -> None:
        self._callers.add(caller)
        connections = len(self._callers) + len(self.calls)
        caller.is_over_limit = connections > self._rule.max_connections
        if connections > self._rule.max_connections + _OVER_LIMIT:
            caller.transport.abort()

    def caller_asked(self, caller: HttpCaller, request: WholeRequest) -> None:
        assert self._tasks is not None
        if caller.is_over_limit and not is_return(request.head.target):  # who comes back has a seat
            caller.answer(error_response(_TOO_MANY))
            return
        method = request.head.method
        match request.path:
            case path if is_voice_path(path) and request.wants_upgrade:
                self._tasks.start_soon(self._upgrade, caller, request)
            case path if is_voice_path(path):
                caller.refuse(HttpError(426, "upgrade_required", "this address speaks WebSocket", [("upgrade", "websocket")]))
            case "/v1/assignments" if method == b"POST":
                self._tasks.start_soon(self._assign, caller, request)
            case "/v1/assignments":
                caller.refuse(HttpError(405, "method_not_allowed", "ask with POST", [("allow", "POST")]))
            case "/healthz":
                caller.answer(json_response(200, {"status": "ok"}))
            case "/readyz":
                is_ready = self._is_ready()
                caller.answer(json_response(200 if is_ready else 503, {"status": "ready" if is_ready else "no_capacity"}))
            case path if method == b"GET" and (page := call_page(path)) is not None:
                caller.answer(page)
            case _:
                caller.refuse(HttpError(404, "not_found", "no such address"))

    def caller_left(self, caller: HttpCaller) -> None:
        self._callers.discard(caller)

    # The work for one caller

    @contextlib.contextmanager
    def _boundary(self, caller: HttpCaller) -> Iterator[None]:
        """One caller's fault, or ours in serving it, never ends another's call. Cancelled when the caller leaves."""
        with anyio.CancelScope() as caller.scope:
            try:
                yield
            except Exception:
                self._log.exception("a caller's request failed")
                caller.failed(HttpError(500, "internal_error", "a fault of ours"))

    async def _assign(self, caller: HttpCaller, request: WholeRequest) -> None:
        with self._boundary(caller):
            try:
                needs = needs_from_json(request.body, self._new_session_id)
                placement = await self._placer.place(needs, Door.ASSIGN)
            except HttpError as error:
                caller.refuse(error)
            except PlacementRefused as refused:
                self.refused(refused)
                caller.turn_away(refused)
            else:
                if caller.transport.is_closing():  # nobody is there to use the place
                    self._placer.release(placement)
                caller.answer(json_response(201, assignment_document(placement)))

    async def _upgrade(self, caller: HttpCaller, request: WholeRequest) -> None:
        with self._boundary(caller):
            waiting: HttpCaller | Opening = caller
            call_id = ""
            try:
                upgrade = check_upgrade(request.head)
                needs = needs_from_query(
                    upgrade.query, upgrade.session_header, self._new_session_id, request.path, request.head.fields
                )
                comes = return_of(upgrade.query, needs, upgrade.path)
                if comes is not None:
                    self.calls.come_back(comes, upgrade, caller.transport, caller.take_over())
                    caller.scope = None
                    self._callers.discard(caller)
                    return
                if caller.is_over_limit:
                    raise _TOO_MANY
                if is_telephone_path(request.path):
                    waiting = opening = Opening(caller)
                    opening.begin(switching_response(upgrade, needs.session_id))
                    start = await opening.start(self._rule.head_timeout_ms / 1000)
                    call_id, needs = start.call_id, needs_from_start(needs, start.needs)
                placement, runtime = await self.reach(upgrade, await self._placer.place(needs, Door.RELAY))
            except CallerGone:
                pass
            except HttpError as error:
                waiting.refuse(error)
            except PlacementRefused as refused:
                self.refused(refused)
                waiting.turn_away(refused)
            else:
                self._relay(caller, waiting, upgrade, placement, runtime, call_id, resume_key_of(upgrade.query))

    async def reach(self, upgrade: Upgrade, placement: Placement) -> tuple[Placement, RuntimeConnection]:
        """Dials the placed runtime, or the next one that admits. Raises PlacementRefused, and HttpError where the request itself
        is wrong; holds nothing then."""
        for attempt in range(1, _DIALS + 1):
            connection = None
            try:
                connection = await dial_runtime(upgrade, placement, self._rule.dial_timeout_ms / 1000)
                return placement, connection
            except UpgradeRefused as refused:
                self._placer.release(placement)
                raise HttpError(refused.status, refused.code, refused.message) from None
            except DialFailed as failure:
                self._dial_failures += 1
                self._log.warning(
                    "dial failed", session_id=placement.session_id, runtime_id=placement.runtime_id, cause=str(failure)
                )
                if attempt == _DIALS:
                    raise self._placer.fail(placement, str(failure)) from failure
                connection = None
                failed = placement
            except BaseException:  # cancelled: the caller is gone, its place goes back
                self._placer.release(placement)
                raise
            placement = await self._placer.place_again(failed, Door.RELAY)
        raise AssertionError

    def _relay(
        self,
        caller: HttpCaller,
        waiting: HttpCaller | Opening,
        upgrade: Upgrade,
        placement: Placement,
        runtime: RuntimeConnection,
        call_id: str,
        resume_key: str,
    ) -> None:
        """From here on bytes only. Nothing awaits between the 101 and the relay."""
        if caller.transport.is_closing() or runtime.transport.is_closing():
            runtime.transport.abort()
            waiting.refuse(HttpError(503, "runtime_lost", "the runtime left", [("retry-after", "1")]))
            return
        if placement.session_id in self.calls:  # the same place was given twice, and the other caller was quicker
            runtime.transport.abort()
            waiting.refuse(HttpError(409, RefusalCode.SESSION_LIVE.value, "the session id is in use"))
            return
        caller.scope = None
        if waiting is caller:
            caller.transport.write(switching_response(upgrade, placement.session_id, placement.runtime_id))
        self._callers.discard(caller)
        self.calls.begin(upgrade, placement, caller.transport, waiting.take_over(), runtime, call_id, resume_key)

    def refused(self, refused: PlacementRefused) -> None:
        reasons = {each.runtime_id: each.reason.value for each in refused.runtimes[:16]}
        self._log.info("refused", code=refused.code, reasons=reasons)

    # Time

    async def _tend(self) -> None:
        while True:
            await anyio.sleep(self._rule.tend_interval_ms / 1000)
            now_ns = self.clock.now_ns()
            self.calls.tend(now_ns)
            for caller in list(self._callers):
                if caller.answered_ns is not None:
                    if now_ns - caller.answered_ns > _ANSWER_TIMEOUT_NS:  # does not read its answer
                        caller.transport.abort()
                elif not caller.is_whole and now_ns - caller.began_ns > self._rule.head_timeout_ms * NS_PER_MS:
                    caller.refuse(HttpError(408, "request_timeout", "the request did not come in time"))
