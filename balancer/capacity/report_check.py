"""Which fields of a load report may be believed (requirement L3).

A bad field is dropped, named and replaced by the last trusted value; the rest of the report stands. A dropped utilisation is
not replaced: the runtime is *unknown* in that field, since an old figure would pass for a fresh one. Never raises because
of what a report says.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from runtime.primitives.load_snapshot import LoadSnapshot

__all__ = ["ABSURD_SESSIONS", "ABSURD_UTILISATION", "TrustedReport", "check_report"]

ABSURD_UTILISATION: Final = 16.0
"""A process tree above sixteen times its share of the cores is a measuring fault, not load. Above 1 is honest overload."""
ABSURD_SESSIONS: Final = 100_000
"""No single process holds so many calls; a larger number is a wrapped or corrupted counter."""
_ABSURD_MS: Final = 3_600_000.0

Check = Callable[[Any], bool]  # Any: the fields differ in type; each check knows its own.


def _share_of_cores(value: float) -> bool:
    return math.isfinite(value) and 0.0 <= value <= ABSURD_UTILISATION


def _ratio_or_absent(value: float) -> bool:
    return value == -1.0 or (math.isfinite(value) and 0.0 <= value <= 1.0)


def _milliseconds(value: float) -> bool:
    return math.isfinite(value) and 0.0 <= value <= _ABSURD_MS


def _sessions(value: int) -> bool:
    return 0 <= value <= ABSURD_SESSIONS


def _count(value: int) -> bool:
    return value >= 0


_CHECKS: Final[tuple[tuple[str, Check], ...]] = (
    ("active", _sessions),
    ("reserved", _sessions),
    ("hard_limit", lambda value: 1 <= value <= ABSURD_SESSIONS),
    ("utilisation", _share_of_cores),
    ("utilisation_fast", _share_of_cores),
    ("machine_utilisation", _ratio_or_absent),
    ("speaking", _sessions),
    ("memory_bytes", _count),
    ("loop_lag_p99_ms", _milliseconds),
    ("missed_audio_deadlines", _count),
    ("startup_p99_ms", _milliseconds),
    ("queue_length", _count),
    ("context_window_remaining", _count),
    ("gpu_memory_ratio", _ratio_or_absent),
    ("kv_cache_ratio", _ratio_or_absent),
)
_NEUTRAL: Final[dict[str, object]] = {
    "active": 0, "reserved": 0, "hard_limit": 0, "utilisation": 0.0, "utilisation_fast": 0.0, "machine_utilisation": -1.0,
    "speaking": 0, "memory_bytes": 0, "loop_lag_p99_ms": 0.0, "missed_audio_deadlines": 0, "startup_p99_ms": 0.0,
    "queue_length": 0, "context_window_remaining": 0, "gpu_memory_ratio": -1.0, "kv_cache_ratio": -1.0,
}  # fmt: skip
"""What stands in for a dropped field of a first report. hard_limit 0 gives the runtime nothing until it says a real one."""


@dataclass(frozen=True, slots=True)
class TrustedReport:
    """A report whose every field may be used. `unknown` names the fields that have no trusted value now."""

    snapshot: LoadSnapshot
    dropped: tuple[str, ...] = ()
    unknown: frozenset[str] = frozenset()

    @property
    def utilisation(self) -> float | None:
        """None: unknown, which is not idle."""
        return None if "utilisation" in self.unknown else self.snapshot.utilisation


def check_report(
    report: LoadSnapshot, previous: TrustedReport | None = None, untranslated: tuple[str, ...] = ()
) -> TrustedReport:
    """The trusted form of `report`. `previous` is the runtime's last one, if it is of the same incarnation; `untranslated` are
    fields that the wire form held no valid value for (their value in `report` is a stand-in)."""
    bad = list(untranslated)
    bad.extend(name for name, is_good in _CHECKS if not is_good(getattr(report, name)) and name not in bad)
    totals_bad = report.totals.active != report.active and "active" not in bad
    if report.speaking > report.active and "speaking" not in bad and "active" not in bad:
        bad.append("speaking")
    if not bad and not totals_bad:
        return TrustedReport(report)
    same_life = previous is not None and previous.snapshot.incarnation == report.incarnation
    values: dict[str, Any] = {}  # Any: as above
    for name in bad:
        if same_life and previous is not None:
            values[name] = getattr(previous.snapshot, name)
        elif name in _NEUTRAL:
            values[name] = _NEUTRAL[name]
    if totals_bad:
        # The active count drives placement and is checked against the books apart; only the totals lose their word.
        bad.append("totals")
        if same_life and previous is not None:
            values["totals"] = previous.snapshot.totals
    if not same_life and ("active" in bad or "reserved" in bad):
        values["hard_limit"] = 0  # unknown is not idle: nothing is given until a count is believed
    return TrustedReport(replace(report, **values), tuple(bad), frozenset({"utilisation"} & set(bad)))
