"""What the router knows of the fleet: standing facts by runtime, loads by column, and what changed.

The owner (the live fleet, a simulator, or a replay) tells it of members, reports, answers and its own placements; a decision
only reads. Every call has its full effect before it returns.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from balancer.routing.affinity import Affinity
from balancer.routing.columns import NEVER_NS, Columns
from balancer.routing.decision import Candidate
from balancer.routing.load_model import LoadModel
from balancer.routing.load_rule import LoadRule
from balancer.routing.reports import Reports
from balancer.routing.response_times import ResponseTimes
from balancer.routing.runtime_facts import RuntimeFacts
from balancer.routing.runtime_row import RuntimeRow
from runtime.primitives.load_snapshot import LoadSnapshot, RuntimeState

__all__ = ["FleetView", "RuntimeRow"]

Bools = NDArray[np.bool_]
_MASKS_KEPT: Final = 256


class FleetView:
    """Slots are stable: a runtime keeps its slot until it is removed; a free slot is never eligible."""

    def __init__(self, rule: LoadRule | None = None, size: int = 16) -> None:
        self.columns = Columns(size)
        self.load = LoadModel(self.columns, rule or LoadRule())
        self.response_times = ResponseTimes(size)
        self.affinity = Affinity()
        self.membership = 0
        """Grows with every change of standing facts."""
        self.listener: Callable[[], None] | None = None
        """Called after news by which a place may have become free; must not call back."""
        self._facts: list[RuntimeFacts | None] = [None] * size
        self._slots: dict[str, int] = {}
        self._free = list(range(size - 1, -1, -1))
        self._masks: dict[Hashable, Bools] = {}

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, runtime_id: str) -> bool:
        return runtime_id in self._slots

    @property
    def version(self) -> tuple[int, int]:
        """Differs whenever a filter may answer differently for any runtime, the passing of time aside."""
        return self.membership, self.load.flips

    def slot_of(self, runtime_id: str) -> int | None:
        return self._slots.get(runtime_id)

    def facts(self, slot: int) -> RuntimeFacts:
        found = self._facts[slot]
        assert found is not None, f"slot {slot} is free"
        return found

    def slots(self) -> tuple[int, ...]:
        return tuple(self._slots.values())

    def row(self, slot: int) -> RuntimeRow:
        c, factors = self.columns, self.load.factors
        active, reserved, in_flight, hard_limit, effective, utilisation = c.numbers(slot)
        arrived_ns = c.arrived_ns.item(slot)
        return RuntimeRow(
            facts=self.facts(slot),
            arrived_ns=None if arrived_ns == NEVER_NS else arrived_ns,
            active=int(active),
            reserved=int(reserved),
            in_flight=int(in_flight),
            hard_limit=int(hard_limit),
            estimate=c.estimate.item(slot),
            load=c.load.item(slot),
            capacity=c.capacity.item(slot),
            effective=effective,
            utilisation=None if utilisation != utilisation else utilisation,
            overload=int(c.overload.item(slot)),
            speed=factors.speed.item(slot),
            mix=factors.mix.item(slot),
        )

    def get(self, runtime_id: str) -> RuntimeRow | None:
        slot = self._slots.get(runtime_id)
        return None if slot is None else self.row(slot)

    def rows(self) -> tuple[RuntimeRow, ...]:
        return tuple(self.row(slot) for slot in self._slots.values())

    # Members

    def put(self, facts: RuntimeFacts) -> int:
        """Adds a runtime or changes what stands about it; another incarnation begins with nothing known. Gives its slot."""
        slot = self._slots.get(facts.runtime_id)
        if slot is None:
            slot = self._take_slot(facts.runtime_id)
            self._reset(slot, facts)
        else:
            before = self.facts(slot)
            if before == facts:
                return slot
            if before.incarnation != facts.incarnation:
                self._reset(slot, facts)
        self._facts[slot] = facts
        c = self.columns
        c.ready[slot] = facts.state is RuntimeState.READY
        c.eligible[slot] = not facts.ineligible
        c.cost[slot] = self.load.rule.cost.price(facts.cost_class)
        self._changed()
        return slot

    def remove(self, runtime_id: str) -> None:
        """Forgets a runtime; unknown ids are ignored."""
        slot = self._slots.pop(runtime_id, None)
        if slot is None:
            return
        self._facts[slot] = None
        self.columns.clear(slot)
        self.load.forget(slot)
        self.response_times.forget(slot)
        self._free.append(slot)
        self._changed()

    def close(self, slot: int, until_ns: int) -> None:
        """It refused for inflow: nothing new before then."""
        self.columns.closed_until_ns[slot] = until_ns
        self.load.flips += 1

    def forget_masks(self) -> None:
        self._masks.clear()

    def mask(self, key: Hashable, fits: Callable[[RuntimeFacts], bool]) -> Bools:
        """The slots whose standing facts fit, remembered under `key` until any runtime's standing facts change."""
        found = self._masks.get(key)
        if found is None:
            if len(self._masks) >= _MASKS_KEPT:  # callers choose keys: bounded, and rebuilding is cheap
                self._masks.clear()
            each = (facts is not None and fits(facts) for facts in self._facts)
            found = np.fromiter(each, dtype=np.bool_, count=self.columns.size)
            self._masks[key] = found
        return found

    # Loads

    def report(self, reports: Reports, now_ns: int, known: NDArray[np.float64] | None = None, *, holds_all: bool = False) -> None:
        """Newer reports that arrived just now. `known`: sessions there whose end we are told of at once; our own if not given.
        `holds_all`: these are all that we hold there, so places that never became calls fall out of our count."""
        c, slots = self.columns, reports.slots
        if known is None:
            known = c.own[slots] - c.in_flight[slots]
        elif holds_all:
            c.own[slots] = known + c.in_flight[slots]
        self.load.report(reports, np.maximum(known, 0.0), now_ns)
        self._news()

    def report_snapshots(
        self, slots: Sequence[int], snapshots: Sequence[LoadSnapshot], utilisations: Sequence[float | None], now_ns: int
    ) -> None:
        """As the live fleet hears of distinct runtimes: of every end at once."""
        known = np.array([each.active + each.reserved for each in snapshots], np.float64)
        self.report(Reports.of(slots, snapshots, utilisations), now_ns, known, holds_all=True)

    def answer(self, slot: int, active: int, reserved: int, now_ns: int, known: float | None = None) -> None:
        """Fresh counts that came with a reservation's answer."""
        if known is None:
            known = max(0.0, self.columns.own.item(slot) - self.columns.in_flight.item(slot))
        self.load.answer(slot, active, reserved, known, now_ns)
        self._news()

    def place(self, slot: int, now_ns: int) -> None:
        """A placement of ours is begun: counted from the decision on, before any I/O."""
        c = self.columns
        c.in_flight[slot] += 1.0
        c.own[slot] += 1.0
        c.own_placed[slot] += 1.0
        self.load.placed(now_ns)
        self.load.change(slot, c.estimate.item(slot) + 1.0)

    def settle(self, slot: int, *, contained: bool) -> None:
        """A placement of ours is no longer in flight: what we know of the runtime contains it, or it never took effect.

        A report that contains it may come before or after; so may its answer. Whichever is first calls this.
        """
        c = self.columns
        c.in_flight[slot] -= 1.0
        if contained:
            c.own_waiting[slot] += 1.0
        else:
            c.own[slot] -= 1.0
            c.own_placed[slot] -= 1.0
        self.load.change(slot, c.estimate.item(slot) - 1.0)
        self._news()

    def end(self, slot: int) -> None:
        """A session of ours (or one whose end we are told of) is over there."""
        self._end(slot)

    def release(self, slot: int) -> None:
        """A place of ours that a runtime had admitted is given back before its session started."""
        self.columns.own_waiting[slot] = max(0.0, self.columns.own_waiting.item(slot) - 1.0)
        self.columns.own_placed[slot] -= 1.0
        self._end(slot)

    def responded(self, slot: int, took_ms: float) -> None:
        """A runtime admitted a session so long after it was asked."""
        self.response_times.add(slot, took_ms)

    def second_look(self, candidate: Candidate) -> tuple[float, float]:
        """After an answer: the load that the decision would have found had it known better, and how full the runtime is now.

        What we placed there ourselves since the decision is no news; all else that the answer brought is.
        """
        c, slot = self.columns, candidate.slot
        load = c.load.item(slot)
        capacity = c.capacity.item(slot)
        since = c.own_placed.item(slot) - candidate.own_placed
        return load - since, load / capacity if capacity > 0.0 else float("inf")

    def has_room(self, candidate: Candidate, now_ns: int, *, uses_capacity: bool) -> bool:
        """Whether the candidate, asked a while after the decision, still has a place as far as is known."""
        c, slot = self.columns, candidate.slot
        is_closed = c.closed_until_ns.item(slot) > now_ns
        return not is_closed and not c.is_full.item(slot) and not (uses_capacity and c.is_capped.item(slot))

    @property
    def ends_per_s(self) -> float:
        """Sessions of the whole fleet that are expected to end within the next second."""
        return self.load.ends.per_s * float(self.columns.estimate[self.columns.used].sum())

    def next_opening_ns(self, now_ns: int) -> int:
        """When the next runtime that refused for inflow may be asked again; far away where there is none."""
        closed_until_ns = self.columns.closed_until_ns
        later = closed_until_ns[closed_until_ns > now_ns]
        return int(later.min()) if later.size else 2**62

    # Inside

    def _changed(self) -> None:
        self.membership += 1
        self._masks.clear()
        self.load.recount()
        self._news()

    def _end(self, slot: int) -> None:
        c = self.columns
        c.own[slot] = max(0.0, c.own.item(slot) - 1.0)
        c.ended[slot] += 1.0
        self.load.change(slot, c.estimate.item(slot) - 1.0)
        self._news()

    def _news(self) -> None:
        if self.listener is not None:
            self.listener()

    def _take_slot(self, runtime_id: str) -> int:
        if not self._free:
            old = self.columns.size
            self.columns.grow(2 * old)
            self.load.grow(2 * old)
            self.response_times.grow(2 * old)
            self._facts.extend([None] * old)
            self._free = list(range(2 * old - 1, old - 1, -1))
        slot = self._slots[runtime_id] = self._free.pop()
        return slot

    def _reset(self, slot: int, facts: RuntimeFacts) -> None:
        self.columns.clear(slot)
        self.load.forget(slot)
        self.response_times.forget(slot)
        c = self.columns
        c.used[slot] = True
        c.hard_limit[slot] = facts.hard_limit
        c.is_full[slot] = c.is_capped[slot] = True  # until it reports
