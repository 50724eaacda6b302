"""A balancer's journal, decided again: by the same policy, bit by bit, or by another, one step at a time.

Another policy is asked at every decision of the log, in the state that the log's own policy had led to: a one-step
counterfactual. What it would have made of the fleet in the long run is a matter for the simulator.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from balancer.routing import journal
from balancer.routing.checkpoint import restore
from balancer.routing.fleet_view import FleetView
from balancer.routing.journal import Entry, Header
from balancer.routing.journal_lines import BadJournal, read_journal
from balancer.routing.policy_options import UnknownPolicy
from balancer.routing.router import Router
from runtime.primitives.rng import SeededRng

__all__ = ["as_lines", "replay"]

Json = dict[str, Any]  # Any: JSON
_BINDINGS: Final = frozenset({"placed", "lives", "ended"})


class _OtherDraws(Exception):  # no error: an answer
    """More chance was asked for than the log has."""


class _Draws:
    def __init__(self, draws: list[float]) -> None:
        self._left = iter(draws)

    def random(self) -> float:
        draw = next(self._left, None)
        if draw is None:
            raise _OtherDraws
        return draw

    @property
    def are_used(self) -> bool:
        return next(self._left, None) is None


@dataclass(slots=True)
class _Replay:
    """The state at one place of the log, and what was counted up to there."""

    header: Header
    other: str
    """The policy to ask; empty: the log's own."""
    view: FleetView
    router: Router
    rng: SeededRng = field(default_factory=lambda: SeededRng(1))
    policies: list[str] = field(default_factory=list)
    decisions: int = 0
    refused: int = 0
    same: int = 0
    first_difference: Json | None = None
    both: int = 0
    agreed: int = 0
    only: dict[str, int] = field(default_factory=lambda: {"log": 0, "other": 0})
    fullness: dict[str, float] = field(default_factory=lambda: {"log": 0.0, "other": 0.0})

    def apply(self, line: int, entry: Entry) -> None:
        view = self.view
        match entry:
            case journal.Put(facts):
                view.put(facts)
            case journal.Remove(runtime_id):
                view.remove(runtime_id)
            case journal.Close(slot, until_ns):
                view.close(self._slot(slot), until_ns)
            case journal.Report(now_ns, reports, known, holds_all):
                for slot in reports.slots.tolist():
                    self._slot(slot)
                view.report(reports, now_ns, known, holds_all=holds_all)
            case journal.Answer(slot, active, reserved, now_ns, known_one):
                view.answer(self._slot(slot), active, reserved, now_ns, known_one)
            case journal.Place(slot, now_ns):
                view.place(self._slot(slot), now_ns)
            case journal.Settle(slot, contained):
                view.settle(self._slot(slot), contained=contained)
            case journal.End(slot):
                view.end(self._slot(slot))
            case journal.Release(slot):
                view.release(self._slot(slot))
            case journal.Responded(slot, took_ms):
                view.responded(self._slot(slot), took_ms)
            case journal.Bind(how, session_id, runtime_id, now_ns):
                if how not in _BINDINGS:
                    raise ValueError(f"binding {how[:20]!r}")
                getattr(view.affinity, how)(session_id, runtime_id, now_ns)
            case journal.UsePolicy(name):
                policy = self.header.options.make(name)
                self.policies.append(name)
                if not self.other:
                    self.router.use(policy)
            case journal.Checkpoint(state):
                restore(state, view, self.router)
                if self.other:
                    self.router.use(self.header.options.make(self.other))
            case journal.Look(now_ns, request, is_open):
                found = self.router.is_open(request, view, now_ns)
                if not self.other and found != is_open:
                    self._differs(line, {"log": is_open, "replay": found})
            case journal.Decide():
                self.decisions += 1
                self.refused += not entry.candidates
                if self.other:
                    self._ask_the_other(entry)
                else:
                    self._decide_again(line, entry)

    def _decide_again(self, line: int, entry: journal.Decide) -> None:
        draws = _Draws(entry.draws)
        try:
            decision = self.router.decide(entry.request, self.view, entry.now_ns, draws)
        except _OtherDraws:
            self._differs(line, {"log": len(entry.draws), "replay": "more draws"})
            return
        found = [(each.runtime_id, each.score) for each in decision.candidates]
        if found == entry.candidates and decision.is_overloaded == entry.is_overloaded and draws.are_used:
            self.same += 1
        else:
            self._differs(line, {"log": entry.candidates, "replay": found, "session_id": entry.request.session_id})

    def _ask_the_other(self, entry: journal.Decide) -> None:
        decision = self.router.decide(entry.request, self.view, entry.now_ns, self.rng)
        theirs = entry.candidates[0][0] if entry.candidates else ""
        ours = decision.candidates[0].runtime_id if decision.candidates else ""
        if theirs and ours:
            self.both += 1
            self.agreed += theirs == ours
            self.fullness["log"] += self._fullness(theirs)
            self.fullness["other"] += self._fullness(ours)
        elif theirs or ours:
            self.only["log" if theirs else "other"] += 1

    def _differs(self, line: int, what: Json) -> None:
        if self.first_difference is None:
            self.first_difference = {"line": line, **what}

    def _fullness(self, runtime_id: str) -> float:
        slot = self.view.slot_of(runtime_id)
        if slot is None:
            raise ValueError(f"{runtime_id[:64]!r} was chosen and is not in the fleet")
        columns = self.view.columns
        return float(columns.load[slot] / max(columns.capacity[slot], 1e-9))

    def _slot(self, slot: int) -> int:
        if not 0 <= slot < self.view.columns.size:
            raise ValueError(f"slot {slot} of {self.view.columns.size}")
        return slot


def replay(lines: Iterable[str], policy: str | None = None) -> Json:
    """The finding as JSON values; `ok` is false where the same policy decided otherwise. Raises BadJournal with the line."""
    header, entries = read_journal(lines)
    other = "" if policy in (None, header.policy) else str(policy)
    router = Router(header.options.make(other or header.policy), header.max_report_age_ns, header.tries, header.overload)
    state = _Replay(header, other, FleetView(header.rule), router, policies=[header.policy])
    line = 1
    try:
        for line, entry in entries:
            state.apply(line, entry)
    except UnknownPolicy as unknown:
        raise BadJournal(line, str(unknown)) from None
    except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise BadJournal(line, f"does not follow from the lines before: {error}") from None
    document: Json = {
        "ok": state.first_difference is None and state.decisions > 0,  # nothing compared is no proof
        "kind": "one-step counterfactual" if other else "same policy",
        "settings": header.settings,
        "log_policies": state.policies,
        "lines": line,
        "decisions": state.decisions,
        "refused_in_the_log": state.refused,
    }
    if not other:
        return {**document, "same_decisions": state.same, "first_difference": state.first_difference}
    both = max(state.both, 1)
    return {
        **document,
        "policy": other,
        "compared": state.both,
        "first_choice_agrees": round(state.agreed / both, 4),
        "mean_load_of_choice": {who: round(total / both, 4) for who, total in state.fullness.items()},
        "placed_by_one_only": state.only,
    }


def as_lines(document: Json) -> str:
    """For people."""
    rows = [f"{name.replace('_', ' ')}: {value}" for name, value in document.items() if name != "ok"]
    return "\n".join((*rows, "ok" if document["ok"] else "NOT THE SAME"))
