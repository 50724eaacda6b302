"""Which reason a session must end with, by what its caller did; read from the workers' own log lines. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from perf.faults.plan import Connection, Ending
from runtime.primitives.reasons import EndReason

__all__ = ["reasons_by_ending", "wrongly_ended"]

_EXPECTED: Final[Mapping[Ending, EndReason]] = {
    Ending.CLOSE: EndReason.CLOSED_BY_CALLER,
    Ending.RESET: EndReason.CONNECTION_LOST,
    Ending.HALF_CLOSE: EndReason.CONNECTION_LOST,
    Ending.BREACH: EndReason.PROTOCOL_ERROR,
    Ending.HALF_OPEN: EndReason.CONNECTION_LOST,
    Ending.STAY: EndReason.CONNECTION_LOST,
}
"""The others never become sessions."""


def reasons_by_ending(lines: Iterable[str], plan: list[Connection]) -> dict[str, dict[str, int]]:
    """`wire.ending` to how often which reason was given. Sessions of killed workers have no line."""
    counted: dict[str, Counter[str]] = {}
    for line in lines:
        if '"session ended"' not in line:
            continue
        said = json.loads(line)
        connection = plan[int(str(said["session_id"]).removeprefix("f-"))]
        counted.setdefault(f"{connection.wire}.{connection.ending}", Counter())[said["reason"]] += 1
    return {name: dict(sorted(reasons.items())) for name, reasons in sorted(counted.items())}


def wrongly_ended(reasons: Mapping[str, Mapping[str, int]]) -> int:
    """Sessions whose reason is not what their caller did."""
    return sum(
        count
        for name, given in reasons.items()
        for reason, count in given.items()
        if reason != _EXPECTED.get(Ending(name.partition(".")[2]))
    )
