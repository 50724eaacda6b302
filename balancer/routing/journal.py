"""Everything that enters the view and the router, in order: enough to make every decision again, bit by bit.

A journal is a header and entries. The recording view and router are the plain ones with one line more at each door; an entry is
noted in the same step as its effect, and whoever takes the notes must not block. Entries hold values that
nobody changes afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from balancer.routing.affinity import Affinity
from balancer.routing.decision import Decision
from balancer.routing.fleet_view import FleetView
from balancer.routing.load_rule import LoadRule
from balancer.routing.overload import OverloadRule
from balancer.routing.policy import Policy
from balancer.routing.policy_options import PolicyOptions
from balancer.routing.reports import Reports
from balancer.routing.request import PlacementRequest
from balancer.routing.router import Router
from balancer.routing.runtime_facts import RuntimeFacts
from runtime.primitives.rng import Rng

__all__ = [
    "FORMAT", "Answer", "Bind", "Checkpoint", "Close", "Decide", "End", "Entry", "Header", "Look", "Note", "Place", "Put",
    "RecordingRouter", "RecordingView", "Release", "Remove", "Report", "Responded", "Settle", "UsePolicy",
]  # fmt: skip

FORMAT = 2


@dataclass(frozen=True, slots=True)
class Header:
    """How the view and the router were made."""

    settings: str
    """A hash of all settings: equal ones decide equally."""
    balancer: str
    policy: str
    options: PolicyOptions
    rule: LoadRule
    overload: OverloadRule
    max_report_age_ns: int
    tries: int


@dataclass(slots=True)
class Put:
    facts: RuntimeFacts


@dataclass(slots=True)
class Remove:
    runtime_id: str


@dataclass(slots=True)
class Close:
    slot: int
    until_ns: int


@dataclass(slots=True)
class Report:
    now_ns: int
    reports: Reports
    known: NDArray[np.float64] | None
    holds_all: bool


@dataclass(slots=True)
class Answer:
    slot: int
    active: int
    reserved: int
    now_ns: int
    known: float | None


@dataclass(slots=True)
class Place:
    slot: int
    now_ns: int


@dataclass(slots=True)
class Settle:
    slot: int
    contained: bool


@dataclass(slots=True)
class End:
    slot: int


@dataclass(slots=True)
class Release:
    slot: int


@dataclass(slots=True)
class Responded:
    slot: int
    took_ms: float


@dataclass(slots=True)
class Bind:
    """`how`: a method of Affinity."""

    how: str
    session_id: str
    runtime_id: str
    now_ns: int


@dataclass(slots=True)
class Decide:
    now_ns: int
    request: PlacementRequest
    draws: list[float]
    candidates: list[tuple[str, float]]
    """Runtime and score, best first: what a replay must find again."""
    is_overloaded: bool


@dataclass(slots=True)
class Look:
    """A caller who waits asked whether there is room."""

    now_ns: int
    request: PlacementRequest
    is_open: bool


@dataclass(slots=True)
class UsePolicy:
    name: str


@dataclass(slots=True)
class Checkpoint:
    """The whole state (checkpoint.py): where a file begins in the middle of a balancer's life."""

    state: Any  # Any: a tree of captured values, or of JSON


Entry = (
    Put
    | Remove
    | Close
    | Report
    | Answer
    | Place
    | Settle
    | End
    | Release
    | Responded
    | Bind
    | Decide
    | Look
    | UsePolicy
    | Checkpoint
)
Note = Callable[[Entry], None]


class _RecordingAffinity(Affinity):
    __slots__ = ("_note",)

    def __init__(self, note: Note) -> None:
        super().__init__()
        self._note = note

    def placed(self, session_id: str, runtime_id: str, now_ns: int) -> None:
        self._note(Bind("placed", session_id, runtime_id, now_ns))
        super().placed(session_id, runtime_id, now_ns)

    def lives(self, session_id: str, runtime_id: str, now_ns: int) -> None:
        self._note(Bind("lives", session_id, runtime_id, now_ns))
        super().lives(session_id, runtime_id, now_ns)

    def ended(self, session_id: str, runtime_id: str, now_ns: int) -> None:
        self._note(Bind("ended", session_id, runtime_id, now_ns))
        super().ended(session_id, runtime_id, now_ns)


class RecordingView(FleetView):
    def __init__(self, rule: LoadRule, note: Note) -> None:
        super().__init__(rule)
        self.affinity = _RecordingAffinity(note)
        self._note = note

    def put(self, facts: RuntimeFacts) -> int:
        slot = self.slot_of(facts.runtime_id)
        if slot is None or self.facts(slot) != facts:  # most reports change nothing that stands
            self._note(Put(facts))
        return super().put(facts)

    def remove(self, runtime_id: str) -> None:
        self._note(Remove(runtime_id))
        super().remove(runtime_id)

    def close(self, slot: int, until_ns: int) -> None:
        self._note(Close(slot, until_ns))
        super().close(slot, until_ns)

    def report(self, reports: Reports, now_ns: int, known: NDArray[np.float64] | None = None, *, holds_all: bool = False) -> None:
        self._note(Report(now_ns, reports, known, holds_all))
        super().report(reports, now_ns, known, holds_all=holds_all)

    def answer(self, slot: int, active: int, reserved: int, now_ns: int, known: float | None = None) -> None:
        self._note(Answer(slot, active, reserved, now_ns, known))
        super().answer(slot, active, reserved, now_ns, known)

    def place(self, slot: int, now_ns: int) -> None:
        self._note(Place(slot, now_ns))
        super().place(slot, now_ns)

    def settle(self, slot: int, *, contained: bool) -> None:
        self._note(Settle(slot, contained))
        super().settle(slot, contained=contained)

    def end(self, slot: int) -> None:
        self._note(End(slot))
        super().end(slot)

    def release(self, slot: int) -> None:
        self._note(Release(slot))
        super().release(slot)

    def responded(self, slot: int, took_ms: float) -> None:
        self._note(Responded(slot, took_ms))
        super().responded(slot, took_ms)


class _KeptDraws:
    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self.draws: list[float] = []

    def random(self) -> float:
        draw = self._rng.random()
        self.draws.append(draw)
        return draw


class RecordingRouter(Router):
    def __init__(self, policy: Policy, max_report_age_ns: int, tries: int, overload: OverloadRule, note: Note) -> None:
        super().__init__(policy, max_report_age_ns, tries, overload)
        self._note = note

    def use(self, policy: Policy) -> None:
        self._note(UsePolicy(policy.name))
        super().use(policy)

    def is_open(self, request: PlacementRequest, view: FleetView, now_ns: int) -> bool:
        is_open = super().is_open(request, view, now_ns)
        self._note(Look(now_ns, request, is_open))
        return is_open

    def decide(self, request: PlacementRequest, view: FleetView, now_ns: int, rng: Rng) -> Decision:
        kept = _KeptDraws(rng)
        decision = super().decide(request, view, now_ns, kept)
        candidates = [(each.runtime_id, each.score) for each in decision.candidates]
        self._note(Decide(now_ns, request, kept.draws, candidates, decision.is_overloaded))
        return decision
