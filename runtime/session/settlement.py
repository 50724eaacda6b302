"""Which placements of each balancer this runtime has settled: the `admitted_upto` of its snapshots."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.primitives.load_snapshot import AdmittedUpto

__all__ = ["PlacementRef", "Settlements"]


@dataclass(frozen=True, slots=True)
class PlacementRef:
    """A placement by name. `number` counts from 1 for each (balancer life, runtime); 0: none."""

    balancer_id: str
    balancer_incarnation: int
    number: int


class _Contiguous:
    """The highest number up to which all are settled, and the stragglers above it."""

    __slots__ = ("above", "upto")

    def __init__(self) -> None:
        self.upto = 0
        self.above: set[int] = set()

    def settle(self, number: int) -> None:
        if number > self.upto:
            self.above.add(number)
            self._advance()

    def settle_below(self, number: int) -> None:
        if number - 1 > self.upto:
            self.upto = number - 1
            self.above = {later for later in self.above if later > self.upto}
            self._advance()

    def _advance(self) -> None:
        while self.upto + 1 in self.above:
            self.upto += 1
            self.above.discard(self.upto)


class Settlements:
    """One contiguous count for each balancer; a newer life of a balancer replaces the older, at most `limit` balancers."""

    def __init__(self, limit: int = 256) -> None:
        self._limit = limit
        self._lives: dict[str, tuple[int, _Contiguous]] = {}

    def settle(self, placement: PlacementRef) -> None:
        """Settles one placement. Numbers of an older life are ignored."""
        count = self._count(placement.balancer_id, placement.balancer_incarnation)
        if count is not None and placement.number > 0:
            count.settle(placement.number)

    def settle_below(self, balancer_id: str, incarnation: int, oldest_open: int) -> None:
        """The balancer says that everything below `oldest_open` is settled on its side."""
        count = self._count(balancer_id, incarnation)
        if count is not None:
            count.settle_below(oldest_open)

    def admitted_upto(self) -> tuple[AdmittedUpto, ...]:
        return tuple(AdmittedUpto(name, life, count.upto) for name, (life, count) in self._lives.items())

    def _count(self, balancer_id: str, incarnation: int) -> _Contiguous | None:
        known = self._lives.get(balancer_id)
        if known is None or known[0] < incarnation:
            if known is None and len(self._lives) >= self._limit:
                del self._lives[next(iter(self._lives))]
            known = (incarnation, _Contiguous())
            self._lives[balancer_id] = known
        return known[1] if known[0] == incarnation else None
