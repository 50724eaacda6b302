"""Holds what the callers saw, what workers and supervisor wrote, and what was counted, against each other, by name. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from perf.faults.journal import Journal
from perf.faults.plan import Connection, Door, Outcome, planned_outcome, ways

__all__ = ["Account", "Said", "draw_up", "read_lines"]

_EXAMPLES: Final = 10


@dataclass(slots=True)
class Said:
    """What the log lines of workers and supervisor say: session ids with the reasons of their ends, and the lost."""

    ended: list[tuple[str, str]] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)


def read_lines(lines: Iterable[str], name: str) -> Said:
    """Of the sessions of one plan, by the beginning of their ids."""
    said = Said()
    for line in lines:
        if '"session ended"' in line:
            entry = json.loads(line)
            said.ended.append((str(entry["session_id"]), str(entry["reason"])))
        elif '"legs lost"' in line:
            said.lost += [str(leg).rpartition("/")[0] for leg in json.loads(line)["legs"]]
    said.ended = [each for each in said.ended if each[0].startswith(f"{name}-")]
    said.lost = [each for each in said.lost if each.startswith(f"{name}-")]
    return said


@dataclass(slots=True)
class Account:
    """Counts of what must not be. All zero in a product that works.

    Attributes:
        not_as_planned: connections that went otherwise than meant, and no kill was near them.
        for_another_reason: sessions that ended with a reason that does not follow from what their caller did.
        ended_twice: sessions with more than one end, of whatever kind.
        without_end: sessions that their caller saw acknowledged, and that have no end.
        lost_without_kill: sessions given up as lost whose worker was not killed under them.
        killed_not_lost: sessions that a kill cut, and that are not among the lost.
        ways_missing: ways of the plan of which not one went as meant.
    """

    not_as_planned: int = 0
    for_another_reason: int = 0
    ended_twice: int = 0
    without_end: int = 0
    lost_without_kill: int = 0
    killed_not_lost: int = 0
    ways_missing: list[str] = field(default_factory=list)
    ended_by_way: dict[str, int] = field(default_factory=dict)
    """Sessions that ended for the reason that was meant; connections that were to become no session; by wire, door and ending."""
    reasons: dict[str, dict[str, int]] = field(default_factory=dict)
    """By wire, door and ending: how often which reason was given. Sessions of killed workers have no line."""
    examples: list[str] = field(default_factory=list)

    def note(self, what: str, session_ids: Iterable[str]) -> int:
        """How many; the first are kept as examples."""
        found = sorted(session_ids)
        self.examples += [f"{what}: {session_id}" for session_id in found[: max(0, _EXAMPLES - len(self.examples))]]
        return len(found)


def draw_up(plan: Iterable[Connection], journal: Journal, said: Said) -> Account:
    """`plan`: what was really meant to be made."""
    connections = {each.session_id: each for each in plan}
    account = Account()
    reasons = dict(said.ended)
    lost = set(said.lost)
    cut, touched = journal.must | journal.may, journal.touched
    outcomes: Mapping[str, Outcome] = journal.outcomes
    expected = {name: planned_outcome(each.ending) for name, each in connections.items()}
    as_planned = {name for name, outcome in expected.items() if outcomes.get(name) is outcome}
    account.not_as_planned = account.note("not as planned", connections.keys() - as_planned - cut)
    wrong = [name for name, reason in said.ended if name not in connections or reason != connections[name].reason]
    account.for_another_reason = account.note("another reason", wrong)
    # Behind the relay a session whose worker was killed goes on at another, and ends there.
    moves = {name for name in touched if name in connections and connections[name].door is Door.RELAYED}
    ends = Counter([name for name, _ in said.ended] + [name for name in said.lost if name not in moves])
    account.ended_twice = account.note("ended twice", (name for name, count in ends.items() if count > 1))
    acknowledged = {name for name in as_planned if expected[name] is Outcome.STARTED}
    # A worker writes that a session ended after it has counted it: a kill may come in between.
    account.without_end = account.note("without end", acknowledged - reasons.keys() - lost - touched)
    account.lost_without_kill = account.note("lost without a kill", lost - touched)
    account.killed_not_lost = account.note("killed and not lost", journal.must - lost)
    reasons_by_way: dict[str, Counter[str]] = {}
    for name, reason in said.ended:
        way = connections[name].way if name in connections else "unknown"
        reasons_by_way.setdefault(way, Counter())[reason] += 1
    account.reasons = {way: dict(sorted(given.items())) for way, given in sorted(reasons_by_way.items())}
    good = as_planned - set(wrong)
    done = Counter(connections[name].way for name in good if expected[name] is not Outcome.STARTED or name in reasons)
    account.ended_by_way = dict(sorted(done.items()))
    account.ways_missing = [".".join(way) for way in ways() if not done[".".join(way)]]
    return account
