"""What each runtime had taken on, by the stated prices, and which placements were wrong in that light. Pure.

A session costs, over its life, what the prices say of what it really did:

    cores = (startup_ms + silence * listened_s + speech * spoken_s + reply * replied_s + own * length_s) / 1000 / length_s

Committed utilisation of a runtime is the sum over its live sessions, over its share of the cores. It knows nothing of measured
load, so a balancer that is fooled by its own measurements does not fool it.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from perf.locust.record import SessionRecord

__all__ = ["OVERLOADED_ABOVE", "ROOMY_BELOW", "Assignments", "Prices", "judge_assignments", "priced_cpu_s"]

OVERLOADED_ABOVE: Final = 0.8
ROOMY_BELOW: Final = 0.75
_SHORTEST_S: Final = 1.0
"""A session of a moment counts as one of a second: its start-up is no steady cost."""


@dataclass(frozen=True, slots=True)
class Prices:
    """CPU milliseconds, as `runtime.engines.synthetic_cost.SyntheticCost` has them; `own_ms_per_s`: of the runtime itself."""

    speech_ms_per_s: float
    silence_ms_per_s: float
    reply_ms_per_s: float
    startup_ms: float
    own_ms_per_s: float = 0.0

    def cores(self, session: SessionRecord) -> float:
        """Mean cores over the session's life."""
        return self.cpu_s(session) / max(session.length_s, _SHORTEST_S)

    def cpu_s(self, session: SessionRecord) -> float:
        return (
            self.startup_ms
            + self.silence_ms_per_s * session.listened_s
            + self.speech_ms_per_s * session.spoken_s
            + self.reply_ms_per_s * session.replied_s
            + self.own_ms_per_s * session.length_s
        ) / 1000


@dataclass(frozen=True, slots=True)
class Assignments:
    """`overloads`: placed where committed utilisation, the new session included, was above 0.8 while another runtime with a free
    place stood below 0.75. `worst`: the highest committed utilisation that any placement made."""

    placements: int
    overloads: int
    worst: float

    @property
    def rate(self) -> float | None:
        return self.overloads / self.placements if self.placements else None


def priced_cpu_s(sessions: Sequence[SessionRecord], prices: Prices) -> float:
    """CPU seconds of all started sessions, by the prices."""
    return sum(prices.cpu_s(session) for session in sessions if session.started_ns)


def judge_assignments(
    sessions: Sequence[SessionRecord], prices: Prices, runtimes: Sequence[str], cores: float, hard_limit: int
) -> Assignments:
    """Replays all started sessions in the order in which they asked.

    Args:
        runtimes: all that could be placed on throughout.
        cores: each one's share.
    """
    committed = dict.fromkeys(runtimes, 0.0)
    count = dict.fromkeys(runtimes, 0)
    ends: list[tuple[int, str, float]] = []
    overloads = placements = 0
    worst = 0.0
    for session in sorted((each for each in sessions if each.started_ns), key=lambda each: each.asked_ns):
        while ends and ends[0][0] <= session.asked_ns:
            _, runtime_id, freed = heapq.heappop(ends)
            committed[runtime_id] -= freed
            count[runtime_id] -= 1
        used = prices.cores(session) / cores
        others = [each for each in runtimes if each != session.runtime_id and count[each] < hard_limit]
        committed[session.runtime_id] += used
        count[session.runtime_id] += 1
        heapq.heappush(ends, (session.ended_ns, session.runtime_id, used))
        placements += 1
        worst = max(worst, committed[session.runtime_id])
        if committed[session.runtime_id] > OVERLOADED_ABOVE and any(committed[each] < ROOMY_BELOW for each in others):
            overloads += 1
    return Assignments(placements, overloads, worst)
