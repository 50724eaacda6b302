"""A routing that is recorded through a life of reports, calls, comings and goings, and chance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from balancer.routing.checkpoint import capture, to_json
from balancer.routing.cost import CostRule
from balancer.routing.journal import Checkpoint, Entry, Header, RecordingRouter, RecordingView
from balancer.routing.journal_lines import entry_to_line, header_to_line
from balancer.routing.load_rule import LoadRule
from balancer.routing.overload import OverloadRule
from balancer.routing.policy_options import PolicyOptions
from balancer.routing.reports import Reports
from balancer.routing.request import PlacementRequest, Priority
from balancer.routing.runtime_facts import RuntimeFacts
from runtime.primitives.clock import NS_PER_MS, NS_PER_S
from runtime.primitives.load_snapshot import CostClass, RuntimeState
from runtime.primitives.rng import SeededRng


@dataclass
class RecordedLife:
    policy: str = "session_aware"
    seed: int = 1
    entries: list[Entry] = field(default_factory=list)

    def __post_init__(self) -> None:
        rule = LoadRule(cost=CostRule(spot=0.25))
        self.header = Header("hash", "b1", self.policy, PolicyOptions(50), rule, OverloadRule(), 5 * NS_PER_S, 3)
        self.view = RecordingView(rule, self.entries.append)
        self.router = RecordingRouter(
            self.header.options.make(self.policy), 5 * NS_PER_S, 3, self.header.overload, self.entries.append
        )
        self.rng = SeededRng(self.seed)
        self.chance = SeededRng(self.seed + 1000)
        self.now_ns = 10 * NS_PER_S
        self.lives: dict[int, int] = {}
        self.held: dict[str, list[str]] = {}
        self.started: dict[str, float] = {}
        self.calls = 0

    def below(self, count: int) -> int:
        return int(self.chance.random() * count)

    def live(self, steps: int) -> None:
        for _ in range(steps):
            self.now_ns += self.below(200) * NS_PER_MS
            drawn = self.chance.random()
            if drawn < 0.08 or not self.lives:
                self._come_or_change()
            elif drawn < 0.1:
                self.view.remove(self._name(self.below(12)))
            elif drawn < 0.4:
                self._report()
            elif drawn < 0.85:
                self._call()
            else:
                self._end()

    def checkpoint(self) -> None:
        """As the file does where one begins in the middle."""
        state = to_json(capture(self.view, self.router))
        self.entries[:] = [Checkpoint(state)]

    def lines(self, change: Callable[[int, str], str] = lambda _, line: line) -> list[str]:
        entries = (entry_to_line(entry, number) for number, entry in enumerate(self.entries, 2))
        made = [header_to_line(self.header), *entries]
        return [change(number, line) for number, line in enumerate(made, 1)]

    @staticmethod
    def _name(number: int) -> str:
        return f"r{number}"

    def _come_or_change(self) -> None:
        number = self.below(12)
        life = self.lives[number] = self.lives.get(number, 0) + (self.chance.random() < 0.3) or 1
        state = RuntimeState.DRAINING if self.chance.random() < 0.15 else RuntimeState.READY
        price = (CostClass.OWNED, CostClass.SPOT, CostClass.ON_DEMAND)[number % 3]
        agents = frozenset({"desk", "sales"} if number % 2 else {"desk"})
        self.view.put(RuntimeFacts(self._name(number), life, state, "", 20, agents, frozenset(), "eu", (1, 2), price))

    def _present(self) -> list[int]:
        return [number for number in self.lives if self._name(number) in self.view]

    def _slot(self, name: str) -> int:
        slot = self.view.slot_of(name)
        assert slot is not None
        return slot

    def _report(self) -> None:
        present = self._present()
        if not present:
            return
        name = self._name(present[self.below(len(present))])
        active = float(len(self.held.get(name, ())))
        utilisation = float("nan") if self.chance.random() < 0.1 else min(1.0, 0.02 + 0.04 * active)
        one = [np.array([each], np.float64) for each in (active, 0.0, 20.0, utilisation, self.started.get(name, 0.0), 0.0, 5.0)]
        known = None if self.chance.random() < 0.3 else one[0]
        self.view.report(Reports(np.array([self._slot(name)], np.intp), *one), self.now_ns, known, holds_all=known is not None)

    def _call(self) -> None:
        self.calls += 1
        session = f"s{self.below(60)}"
        agent = ("", "desk", "sales")[self.below(3)]
        priority = list(Priority)[self.below(3)]
        request = PlacementRequest(session, agent=agent, region="eu" if self.below(2) else "", priority=priority)
        if not self.router.is_open(request, self.view, self.now_ns):
            return
        decision = self.router.decide(request, self.view, self.now_ns, self.rng)
        for candidate in decision.candidates[: 1 + self.below(2)]:
            self.view.place(candidate.slot, self.now_ns)
            admitted = self.chance.random() < 0.9
            self.view.settle(candidate.slot, contained=admitted)
            held = self.held.setdefault(candidate.runtime_id, [])
            if not admitted:
                if self.chance.random() < 0.5:
                    self.view.close(candidate.slot, self.now_ns + NS_PER_S)
                continue
            held.append(session)
            self.started[candidate.runtime_id] = self.started.get(candidate.runtime_id, 0.0) + 1.0
            self.view.answer(candidate.slot, len(held), 0, self.now_ns)
            self.view.responded(candidate.slot, 1.0 + self.chance.random())
            self.view.affinity.placed(session, candidate.runtime_id, self.now_ns)
            if self.chance.random() < 0.1:
                held.pop()
                self.view.release(candidate.slot)
            else:
                self.view.affinity.lives(session, candidate.runtime_id, self.now_ns)
            break

    def _end(self) -> None:
        present = [self._name(number) for number in self._present() if self.held.get(self._name(number))]
        if present:
            name = present[self.below(len(present))]
            session = self.held[name].pop(0)
            self.view.end(self._slot(name))
            self.view.affinity.ended(session, name, self.now_ns)
