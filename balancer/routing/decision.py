"""The answer to one placement request, with everything that explains it."""

from __future__ import annotations

from dataclasses import dataclass

from balancer.routing.fleet_view import RuntimeRow
from balancer.routing.request import PlacementRequest
from runtime.primitives.clock import NS_PER_S
from runtime.primitives.reasons import RefusalReason

__all__ = ["Candidate", "Decision", "RuntimeRefusal"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """One runtime that may serve the leg, as it stood at the decision."""

    row: RuntimeRow
    report_age_ns: int
    score: float

    @property
    def runtime_id(self) -> str:
        return self.row.runtime_id

    def __str__(self) -> str:
        row = self.row
        return (
            f"{row.active}+{row.reserved}+{row.in_flight} of {row.hard_limit} (effective {row.effective:.1f}); "
            f"report {self.report_age_ns / NS_PER_S:.1f} s old"
        )


@dataclass(frozen=True, slots=True)
class RuntimeRefusal:
    """Why one runtime was not chosen or did not admit."""

    runtime_id: str
    reason: RefusalReason
    detail: str


@dataclass(frozen=True, slots=True)
class Decision:
    """Candidates best first, or none and every runtime's reason.

    `removed` counts, filter by filter in order, the runtimes that a filter removed first.
    """

    request: PlacementRequest
    policy: str
    claim: str
    decided_ns: int
    considered: int
    removed: tuple[tuple[str, int], ...]
    with_room: int
    candidates: tuple[Candidate, ...]
    refusals: tuple[RuntimeRefusal, ...] = ()
    """Only where there is no candidate."""
    cross_region: bool = False

    @property
    def reason(self) -> str:
        """One readable sentence."""
        if not self.candidates:
            if not self.considered:
                return "no runtime is enrolled"
            causes = ", ".join(f"{count} {name}" for name, count in self.removed)
            return f"none of {self.considered} runtimes has a place (removed by filter: {causes})"
        return self.explain(self.candidates[0])

    def explain(self, candidate: Candidate) -> str:
        """The sentence for one of the candidates: the first is the policy's choice, a later one an escalation."""
        place = self.candidates.index(candidate)
        claim = self.claim if place == 0 else f"choice {place + 1} (the ones before gave no place), {self.claim}"
        region = f", cross-region from {self.request.region}" if self.cross_region else ""
        return f"{claim} of {self.with_room} with room{region}: {candidate}"
