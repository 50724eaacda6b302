"""A journal as JSON lines: the header first, then one entry a line. Times in nanoseconds; null: not a number (unknown).

Each entry carries the number of its line (the header's is 1), so that a line that was lost or added in between is noticed. What
was cut off at the end is not: a balancer that is killed leaves that too.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Iterator
from typing import Any, Final, cast

import numpy as np

from balancer.capacity.effective_capacity import CapacityRule
from balancer.routing import journal
from balancer.routing.cost import CostRule
from balancer.routing.journal import FORMAT, Entry, Header
from balancer.routing.load_rule import LoadRule
from balancer.routing.overload import OverloadRule
from balancer.routing.policies import POLICIES
from balancer.routing.policies.weighted_remaining import Remaining
from balancer.routing.policy_options import PolicyOptions
from balancer.routing.reports import Reports
from balancer.routing.request import PlacementRequest, Priority
from balancer.routing.runtime_facts import RuntimeFacts
from runtime.primitives.errors import Fault, VoiceError
from runtime.primitives.load_snapshot import CostClass, RuntimeState

__all__ = ["BadJournal", "entry_from_line", "entry_to_line", "header_from_line", "header_to_line", "read_journal"]

Json = dict[str, Any]  # Any: JSON
_FORMAT_NAME: Final = "switchboard-journal"
_KINDS: Final[dict[str, type[Any]]] = {
    "put": journal.Put, "remove": journal.Remove, "close": journal.Close, "report": journal.Report, "answer": journal.Answer,
    "place": journal.Place, "settle": journal.Settle, "end": journal.End, "release": journal.Release,
    "responded": journal.Responded, "bind": journal.Bind, "decide": journal.Decide, "look": journal.Look,
    "use_policy": journal.UsePolicy, "checkpoint": journal.Checkpoint,
}  # fmt: skip
_NAMES: Final = {made: name for name, made in _KINDS.items()}
_REPORT_NEEDS: Final = 8
"""Of the fields of `Reports`, the first that may not be missing."""


class BadJournal(VoiceError):
    """The file is no journal, or not one that we can read."""

    code = "bad_journal"
    fault = Fault.PEER

    def __init__(self, line: int, message: str) -> None:
        self.line = line
        super().__init__(f"line {line}: {message}")


def header_to_line(header: Header) -> str:
    return _dump({"journal": _FORMAT_NAME, "format": FORMAT, **dataclasses.asdict(header)})


def header_from_line(line: str) -> Header:
    """Raises BadJournal."""
    values = _load(line, 1)
    if values.get("journal") != _FORMAT_NAME:
        raise BadJournal(1, "not a journal of a switchboard balancer")
    if values.get("format") != FORMAT:
        raise BadJournal(1, f"format is {values.get('format')!r}; this version reads {FORMAT}")
    try:
        rule, options = dict(values["rule"]), dict(values["options"])
        header = Header(
            settings=str(values["settings"]),
            balancer=str(values["balancer"]),
            policy=str(values["policy"]),
            options=PolicyOptions(int(options["virtual_nodes"]), Remaining(**options["remaining"])),
            rule=LoadRule(**{**rule, "capacity": CapacityRule(**rule["capacity"]), "cost": CostRule(**rule["cost"])}),
            overload=OverloadRule(**values["overload"]),
            max_report_age_ns=int(values["max_report_age_ns"]),
            tries=int(values["tries"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BadJournal(1, f"the header is incomplete or wrong: {error}") from None
    if header.policy not in POLICIES:
        raise BadJournal(1, f"policy is {header.policy[:40]!r}; allowed: {', '.join(POLICIES)}")
    return header


def entry_to_line(entry: Entry, number: int) -> str:
    """`number`: of the line in its file."""
    values: Json = {"n": number, "do": _NAMES[type(entry)]}
    for field in dataclasses.fields(entry):
        value = getattr(entry, field.name)
        match value:
            case RuntimeFacts():
                value = _facts(value)
            case PlacementRequest():
                value = _request(value)
            case Reports():
                value = {each.name: _column(getattr(value, each.name)) for each in dataclasses.fields(Reports)}
            case np.ndarray():
                value = _column(value)
        values[field.name] = value
    return _dump(values)


def entry_from_line(line: str, number: int) -> Entry:
    """Raises BadJournal with `number`."""
    values = _load(line, number)
    told = values.pop("n", None)
    if told != number:
        raise BadJournal(number, f"this is line {str(told)[:40]!r} of what was written; one is missing or was added before it")
    kind = values.pop("do", None)
    made = _KINDS.get(kind) if isinstance(kind, str) else None
    if made is None:
        raise BadJournal(number, f"unknown entry {str(kind)[:40]!r}")
    try:
        for name, read in (("facts", _read_facts), ("request", _read_request), ("reports", _read_reports)):
            if name in values:
                values[name] = read(values[name])
        if kind == "report" and values["known"] is not None:
            values["known"] = np.array(values["known"], np.float64)
        if kind == "decide":
            values["candidates"] = [(str(name), float(score)) for name, score in values["candidates"]]
            values["draws"] = [float(draw) for draw in values["draws"]]
        return cast(Entry, made(**values))
    except (KeyError, TypeError, ValueError) as error:
        raise BadJournal(number, f"a {kind} entry is incomplete or wrong: {error}") from None


def read_journal(lines: Iterable[str]) -> tuple[Header, Iterator[tuple[int, Entry]]]:
    """The header, and entries with their line numbers, read as they are asked for. Raises BadJournal, also while they are read.

    A last line without its end was being written when the balancer died: it is left out.
    """
    numbered = iter(enumerate(lines, 1))
    _, first = next(numbered, (1, ""))
    if not first.endswith("\n"):
        raise BadJournal(1, "empty, or not a journal of a switchboard balancer")
    return header_from_line(first), _entries(numbered)


def _entries(numbered: Iterator[tuple[int, str]]) -> Iterator[tuple[int, Entry]]:
    for number, line in numbered:
        if line.endswith("\n"):
            yield number, entry_from_line(line, number)


def _dump(values: Json) -> str:
    return json.dumps(values, separators=(",", ":"), allow_nan=False) + "\n"


def _load(line: str, number: int) -> Json:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        raise BadJournal(number, "not JSON") from None
    if not isinstance(values, dict):
        raise BadJournal(number, "not a JSON object")
    return values


def _column(values: Any) -> list[float | None] | None:  # Any: an array of whatever numbers, or None
    if values is None:
        return None
    listed: list[float | None] = values.tolist()
    return [None if each is not None and math.isnan(each) else each for each in listed]


def _read_reports(values: Json) -> Reports:
    columns: dict[str, Any] = {}  # Any: slots are integers, the others floats
    for place, field in enumerate(dataclasses.fields(Reports)):
        column = values[field.name] if place < _REPORT_NEEDS else values.get(field.name)
        if column is not None:
            # None reads as NaN
            columns[field.name] = np.array(column, np.intp if field.name == "slots" else np.float64)
    sizes = {column.shape for column in columns.values()}
    if len(sizes) != 1:
        raise ValueError("columns of unequal length")
    return Reports(**columns)


def _facts(facts: RuntimeFacts) -> Json:
    values = {field.name: getattr(facts, field.name) for field in dataclasses.fields(facts)}
    values["agents"], values["abilities"] = sorted(facts.agents), sorted(facts.abilities)
    return values


def _read_facts(values: Json) -> RuntimeFacts:
    return RuntimeFacts(
        **{
            **values,
            "state": RuntimeState(values["state"]),
            "cost_class": CostClass(values["cost_class"]),
            "agents": frozenset(values["agents"]),
            "abilities": frozenset(values["abilities"]),
            "version": tuple(values["version"]),
        }
    )


def _request(request: PlacementRequest) -> Json:
    values = {field.name: getattr(request, field.name) for field in dataclasses.fields(request)}
    values["abilities"], values["avoid"] = sorted(request.abilities), sorted(request.avoid)
    return values


def _read_request(values: Json) -> PlacementRequest:
    return PlacementRequest(
        **{
            **values,
            "abilities": frozenset(values["abilities"]),
            "avoid": frozenset(values["avoid"]),
            "min_version": tuple(values["min_version"]),
            "priority": Priority(values["priority"]),
        }
    )
