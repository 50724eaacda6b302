"""What the fleet holds of one runtime life beside its membership."""

from __future__ import annotations

from dataclasses import dataclass, field

from balancer.capacity.in_flight import InFlight
from balancer.capacity.report_check import TrustedReport
from balancer.fleet.membership import Member

__all__ = ["Seat"]


@dataclass(slots=True)
class Seat:
    member: Member
    slot: int
    """Its place in the view, as long as it is in the fleet."""
    flight: InFlight = field(default_factory=InFlight)
    report: TrustedReport | None = None
    arrived_ns: int | None = None
    report_waits: bool = False
    """The report is not in the view yet."""
    settles_with_report: list[int] = field(default_factory=list)
    """Placements that the waiting report contains, and that count as in flight until it is in the view."""
