"""A place at a runtime, as a value."""

from __future__ import annotations

from dataclasses import dataclass, field

from balancer.routing.request import PlacementRequest

__all__ = ["Placement"]


@dataclass(frozen=True, slots=True)
class Placement:
    """A place that is held until the ticket expires."""

    request: PlacementRequest
    runtime_id: str
    incarnation: int
    websocket_address: str
    grpc_address: str
    ticket: str = field(repr=False)
    ticket_ttl_ms: int
    reason: str
    cross_region: bool
    number: int
    """What whoever placed it calls it."""
    place: str = field(default="", repr=False)
    """The name under which the runtime holds it, which the ticket holds sealed; empty: the ticket is that name."""

    @property
    def session_id(self) -> str:
        return self.request.session_id

    @property
    def epoch(self) -> int:
        return self.request.epoch
