"""Where the public port gets places from: the placer of its own process, or that of the control it is a relay of."""

from __future__ import annotations

from typing import Protocol

from balancer.placement.errors import PlacementRefused
from balancer.placement.placement import Placement
from balancer.placement.reservation import Door
from balancer.routing.request import PlacementRequest

__all__ = ["Places"]


class Places(Protocol):
    """What of a placer the front needs. What is not awaited takes effect before it returns, or soon after; it never fails."""

    async def place(self, request: PlacementRequest, door: Door) -> Placement:
        """Holds a place for the session's next leg, whose epoch is set in the answer's request, or raises PlacementRefused. May
        wait for a turn. Cancellation leaves nothing held."""
        ...

    async def place_again(self, failed: Placement, door: Door) -> Placement:
        """After a runtime had admitted and could not be reached: gives that place back and tries the others."""
        ...

    async def adopt(self, request: PlacementRequest, lost: frozenset[tuple[str, int]]) -> Placement:
        """A place at once for the next leg of a session whose caller is held here, or raises PlacementRefused. The epoch is the
        request's; `lost`: runtime lives (id, incarnation) that it must not go to."""
        ...

    def fail(self, placement: Placement, detail: str) -> PlacementRefused:
        """After the last try: the admitted place could not be used, and goes back. Gives what the caller is answered."""
        ...

    def release(self, placement: Placement) -> None:
        """Gives an unused place back, in the background."""
        ...

    def hold(self, session_id: str, epoch: int) -> None:
        """The session's caller is connected here and has used the place of this leg: until `let_go` its id is in use, whether a
        runtime serves it at the moment or not."""
        ...

    def let_go(self, session_id: str) -> None: ...
