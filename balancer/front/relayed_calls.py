"""Every relayed call of this process: begun, tended, counted, moved, ended."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import anyio
import anyio.abc
import structlog

from balancer.continuity.pulses import Pulses
from balancer.fleet.awake_clock import AwakeClock
from balancer.front.coming_back import ComingBack
from balancer.front.dial import RuntimeConnection
from balancer.front.drains import Drains, Movable
from balancer.front.front_rule import FrontRule
from balancer.front.move_counts import MoveCounts, MoveKind, MoveObserver, MoveResult
from balancer.front.places import Places
from balancer.front.relay import Relay
from balancer.front.relay_leg import runtime_leg
from balancer.front.relay_rule import RelayEnd
from balancer.front.responses import HttpError
from balancer.front.returns import Return
from balancer.front.search import Search, Searcher
from balancer.front.succession import Succession
from balancer.front.succession_ports import RelayedCall
from balancer.front.upgrade import Upgrade, switching_response
from balancer.placement.placement import Placement
from runtime.primitives.clock import NS_PER_MS, NS_PER_S, Clock
from runtime.primitives.rng import Rng

__all__ = ["RelayedCalls"]

_LATE_STEPS: Final = 2
"""Tending later than so many intervals is our own lateness, and not charged to a silent runtime."""


class RelayedCalls:
    """`tasks` must be set before the first call; searches run there."""

    def __init__(
        self,
        placer: Places,
        rule: FrontRule,
        clock: Clock,
        rng: Rng,
        log: structlog.typing.FilteringBoundLogger,
        observer: MoveObserver,
        is_leaving: Callable[[str, int], bool],
    ) -> None:
        self.clock = clock
        self.tasks: anyio.abc.TaskGroup
        self.moves = MoveCounts()
        self.searcher = Searcher(placer, rule.dial_timeout_ms / 1000, rng, log)
        self._drains = Drains(rule.drain, is_leaving)
        self._placer = placer
        self._rule = rule
        self._rng = rng
        self._log = log.bind()  # made once: an unbound logger makes itself anew for each line
        self._observer = observer
        self._awake = AwakeClock(clock.now_ns(), _LATE_STEPS * rule.tend_interval_ms * NS_PER_MS)
        self._pulses = Pulses()
        self._relays: dict[str, Relay] = {}
        self._telephones: dict[tuple[str, str], Relay] = {}
        """By tenant and telephone call, the stream that serves it."""
        self._emptied = asyncio.Event()
        self._ends: dict[RelayEnd, int] = dict.fromkeys(RelayEnd, 0)
        self._messages = [0, 0]
        self._dropped = self._returns = 0
        self._away: Counter[str] = Counter()
        """Calls that wait for their callers, by tenant."""

    def __len__(self) -> int:
        return len(self._relays)

    def __contains__(self, session_id: object) -> bool:
        return session_id in self._relays

    def get(self, session_id: str) -> Relay | None:
        return self._relays.get(session_id)

    def all(self) -> tuple[Relay, ...]:
        return tuple(self._relays.values())

    def begin(
        self,
        upgrade: Upgrade,
        placement: Placement,
        caller: asyncio.Transport,
        early: bytes,
        runtime: RuntimeConnection,
        call_id: str = "",
        resume_key: str = "",
    ) -> None:
        """Both are connected, and the caller has its 101. `early` is what came behind the caller's request. `call_id`: of the
        telephone call, which has one stream at a time: an older one ends, lest two agents talk to one caller. `resume_key`: with
        it the caller may come back; empty: it will not."""
        session_id = placement.session_id
        relay = Relay(self, self._rule.relay, session_id, caller)
        self._relays[session_id] = relay
        if call_id:
            self._replace((placement.request.tenant, call_id), relay)
        self._placer.hold(session_id, placement.epoch)
        rule = self._rule.relay.coming_back
        if resume_key and rule.grace_ms:
            relay.coming_back = ComingBack(relay, placement.request.tenant, upgrade.path, resume_key, rule, self._away)
        succession = partial(Succession, owner=self, upgrade=upgrade, request=placement.request)
        serving = runtime_leg(relay, runtime.transport, placement, relay.rule.max_frame_bytes, has_asides=runtime.has_asides)
        relay.begin(serving, succession if runtime.has_asides else None)
        self._log.info(
            "placed", session_id=session_id, epoch=placement.epoch, runtime_id=placement.runtime_id,
            reason=placement.reason, cross_region=placement.cross_region,
        )  # fmt: skip
        if runtime.early:
            serving.data_received(runtime.early)
        if early:
            relay.caller.data_received(early)
        if not serving.is_gone:
            serving.resume_reading()

    def come_back(self, comes: Return, upgrade: Upgrade | None, caller: asyncio.Transport, early: bytes) -> None:
        """A caller that has lost its connection goes on over this one. `upgrade`: what it is to be answered; None: nothing.
        Raises HttpError 403; then nothing has changed."""
        relay = self._relays.get(comes.session_id)
        back = None if relay is None else relay.coming_back
        if relay is None or back is None or not back.fits(comes):
            raise HttpError(403, "session_over", "no call of this wire waits under this session id, tenant and resume_key")
        if relay.is_closing:
            raise HttpError(403, "session_over", "the call is over")
        if not back.covers(comes.received):
            raise HttpError(
                403, "missed_too_much", f"received is {comes.received}; what followed is not here any more, or never was"
            )
        self._returns += 1
        self._log.info("caller is back", session_id=relay.session_id)
        answer = b"" if upgrade is None else switching_response(upgrade, relay.session_id, relay.runtime.runtime_id)
        back.comes(caller, answer, comes.received)
        if early:
            relay.caller.data_received(early)

    def tend(self, now_ns: int) -> None:
        awake_ns = self._awake.tick(now_ns)
        relays = self.all()
        self._pulses.look(relay.runtime.life for relay in relays if relay.runtime.heard and relay.succession is not None)
        for relay in relays:
            relay.tend(now_ns, awake_ns, self._pulses)
        self.tend_drains()

    def tend_drains(self) -> None:
        """Also when a runtime has just said that it leaves."""
        if not self._drains.are_due({relay.runtime.life for relay in self._relays.values()}):
            return
        movable = [
            Movable(relay.session_id, relay.runtime.life, relay.succession)
            for relay in self._relays.values()
            if relay.succession is not None
        ]
        self._drains.tend(movable, self.clock.now_ns())

    def move(self, session_id: str, to: str) -> str:
        """An operator's wish; `to`: a runtime's id, empty: any other. Why it cannot be, or nothing: it has begun."""
        relay = self._relays.get(session_id)
        if relay is None:
            return "no such call is relayed here"
        if relay.succession is None:
            return "its runtime does not speak asides"
        if to == relay.runtime.runtime_id:
            return "it is served there"
        return "" if relay.succession.want(to) else "it cannot move at this moment"

    def suspect(self, runtime_id: str, incarnation: int) -> None:
        """The fleet has not heard this runtime for too long."""
        for relay in self.all():
            if relay.succession is not None and relay.runtime.life == (runtime_id, incarnation):
                relay.succession.suspect()

    def abort(self) -> None:
        for relay in self.all():
            relay.abort()

    async def drain(self, timeout_s: float) -> None:
        """Lets calls finish for `timeout_s`, then closes them with 1012."""
        with anyio.move_on_after(timeout_s):
            await self._empty()
        for relay in self.all():
            relay.shut_down(1012, "the balancer is shutting down")
        with anyio.move_on_after(self._rule.relay.close_timeout_ms / 1000 + 1.0):
            await self._empty()

    def statistics(self) -> Mapping[str, float]:
        relays = self.all()
        kept = [relay.succession.memory.kept for relay in relays if relay.succession is not None]
        movable = sum(relay.succession is not None and relay.succession.is_replaceable for relay in relays)
        return {
            "relayed": len(relays),
            "buffered_bytes": sum(_buffered_bytes(relay) for relay in relays),
            "paused": sum(leg.paused_ns is not None for relay in relays for leg in (relay.caller, relay.runtime)),
            "client_messages": self._messages[0] + sum(relay.caller.borders.messages for relay in relays),
            "server_messages": self._messages[1] + sum(relay.server_messages for relay in relays),
            "stalled": self._ends[RelayEnd.CALLER_STALLED],
            "protocol_errors": self._ends[RelayEnd.CALLER_BROKE_PROTOCOL],
            "upstream_lost": self._ends[RelayEnd.RUNTIME_LOST] + self._ends[RelayEnd.RUNTIME_BROKE_PROTOCOL],
            "no_capacity": self._ends[RelayEnd.NO_CAPACITY],
            "replay_bytes": sum(each.size_bytes for each in kept),
            "replay_dropped": self._dropped + sum(each.dropped for each in kept),
            "replayed_bytes": self.moves.replayed_bytes,
            "immovable": len(relays) - movable,
            "away": self._away.total(),
            "told_bytes": sum(relay.coming_back.size_bytes for relay in relays if relay.coming_back is not None),
            "returns": self._returns,
        }

    def move_counts(self) -> Mapping[tuple[str, str], float]:
        """By kind and result."""
        return {(kind.value, result.value): count for (kind, result), count in self.moves.ended.items()}

    # What relays and their successions tell

    def mask_key(self) -> bytes:
        return int(self._rng.random() * 2**32).to_bytes(4, "big")

    def relay_ended(self, call: RelayedCall) -> None:
        relay = self._relays.get(call.session_id)
        if relay is not call:
            return
        del self._relays[relay.session_id]
        if relay.telephone is not None and self._telephones.get(relay.telephone) is relay:
            del self._telephones[relay.telephone]
        self._placer.let_go(relay.session_id)
        end = relay.end or RelayEnd.SHUT_DOWN
        self._ends[end] += 1
        self._messages[0] += relay.caller.borders.messages
        self._messages[1] += relay.server_messages
        if relay.succession is not None:
            self._dropped += relay.succession.memory.kept.dropped
        self._log.info(
            "relay ended",
            session_id=relay.session_id,
            runtime_id=relay.runtime.runtime_id,
            end=end.value,
            seconds=round((self.clock.now_ns() - relay.began_ns) / NS_PER_S, 3),
            client_messages=relay.caller.borders.messages,
            server_messages=relay.server_messages,
        )
        if not self._relays:
            self._emptied.set()

    def search(self, search: Search) -> None:
        self.tasks.start_soon(self.searcher.run, search)

    def moved(self, call: RelayedCall, kind: MoveKind, result: MoveResult, took_ns: int) -> None:
        self.moves.ended[kind, result] += 1
        self._observer.moved(kind, result, took_ns)
        self._log.info(
            "move ended",
            session_id=call.session_id,
            runtime_id=call.runtime.runtime_id,
            epoch=call.runtime.epoch,
            kind=kind.value,
            result=result.value,
            ms=round(took_ns / NS_PER_MS, 1),
        )
        self.tend_drains()  # there is room for the next

    def replayed(self, size_bytes: int) -> None:
        self.moves.replayed_bytes += size_bytes

    def _replace(self, telephone: tuple[str, str], relay: Relay) -> None:
        older = self._telephones.get(telephone)
        self._telephones[telephone] = relay
        relay.telephone = telephone
        if older is not None:
            self._log.info("stream replaced", session_id=older.session_id, by=relay.session_id)
            older.shut_down(1000, "a newer stream of the call is here")

    async def _empty(self) -> None:
        while self._relays:
            self._emptied.clear()
            await self._emptied.wait()


def _buffered_bytes(relay: Relay) -> int:
    legs = (leg for leg in (relay.caller, relay.runtime) if not leg.is_gone)
    return sum(leg.borders.buffered_bytes + leg.transport.get_write_buffer_size() for leg in legs)
