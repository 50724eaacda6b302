"""The answer to one placement request, with everything that explains it."""

from __future__ import annotations

from dataclasses import dataclass

from balancer.routing.request import PlacementRequest
from runtime.primitives.clock import NS_PER_S
from runtime.primitives.reasons import RefusalReason

__all__ = ["Candidate", "Decision", "RuntimeRefusal"]


@dataclass(slots=True)
class Candidate:
    """One runtime that may serve the leg, as it stood at the decision. Never changed after it was made.

    `numbers`: active, reserved, own in flight, hard limit, effective capacity, utilisation (NaN: unknown).
    """

    slot: int
    runtime_id: str
    incarnation: int
    score: float
    enough: float
    """Fresh load at or below which no other runtime is asked."""
    own_placed: float
    """The view's count of our placements there, as it was."""
    report_age_ns: int
    numbers: list[float]

    def __str__(self) -> str:
        active, reserved, in_flight, hard_limit, effective, _ = self.numbers
        return (
            f"{active:.0f}+{reserved:.0f}+{in_flight:.0f} of {hard_limit:.0f} (effective {effective:.1f}); "
            f"report {self.report_age_ns / NS_PER_S:.1f} s old"
        )


@dataclass(frozen=True, slots=True)
class RuntimeRefusal:
    """Why one runtime was not chosen or did not admit."""

    runtime_id: str
    reason: RefusalReason
    detail: str


@dataclass(slots=True)
class Decision:
    """Candidates best first, or none and every runtime's reason. Never changed after it was made.

    `removed` counts, filter by filter in order, the runtimes that a filter removed first.
    """

    request: PlacementRequest
    policy: str
    claim: str
    decided_ns: int
    considered: int
    removed: tuple[tuple[str, int], ...]
    with_room: int
    candidates: list[Candidate]
    refusals: tuple[RuntimeRefusal, ...] = ()
    """Only where there is no candidate."""
    cross_region: bool = False
    fleet_load: float = 0.0
    is_overloaded: bool = False
    """The fleet as a whole is too full for this priority."""
    uses_capacity: bool = True
    """Whether the policy keeps to learned capacity: so must a look at a candidate that is asked later."""
    bound_to: str = ""
    """The runtime that the session belongs to; it is the first candidate unless it has no place for it."""

    @property
    def reason(self) -> str:
        """One readable sentence."""
        if not self.candidates:
            if not self.considered:
                return "no runtime is enrolled"
            if self.is_overloaded:
                return (
                    f"the fleet is at {self.fleet_load:.0%} of its capacity: too full for {self.request.priority.value} priority"
                )
            causes = ", ".join(f"{count} {name}" for name, count in self.removed)
            return f"none of {self.considered} runtimes has a place (removed by filter: {causes})"
        return self.explain(self.candidates[0])

    def explain(self, candidate: Candidate) -> str:
        """The sentence for one of the candidates: the first is the policy's choice, a later one an escalation."""
        place = self.candidates.index(candidate)
        claim = self.claim if place == 0 else f"choice {place + 1} (the ones before were fuller or gave no place), {self.claim}"
        if self.bound_to and place == 0:
            returns = candidate.runtime_id == self.bound_to
            claim = "returns to its runtime, one" if returns else f"{claim}, for its own {self.bound_to} has no place,"
        region = f", cross-region from {self.request.region}" if self.cross_region else ""
        return f"{claim} of {self.with_room} with room{region}: {candidate}"
