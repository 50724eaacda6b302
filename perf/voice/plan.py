"""Who says what, with which pauses, and who interrupts: conversations as plain values, drawn from a seed. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from runtime.primitives.rng import Rng

__all__ = ["Manners", "PlannedTurn", "Reaction", "TurnPlans", "plan_starts"]

_PAUSE_MEDIAN_S: Final = 0.3
_PAUSE_SPREAD: Final = 0.5
"""Pauses within a turn: median 0.3 s, two thirds between 0.18 and 0.5 s (log-normal), as conversation has them (Heldner and
Edlund 2010 find pauses and gaps of that order, with a long tail)."""
_PAUSE_LONGEST_S: Final = 1.2


@dataclass(frozen=True, slots=True)
class Manners:
    """How often a caller does what.

    Attributes:
        joins: that a turn is two recordings with a pause between, not one.
        interrupts: that the next turn begins while the agent speaks.
        makes_noise: that something is knocked over while the agent speaks, which is no reason to stop.
    """

    joins: float = 0.5
    interrupts: float = 0.3
    makes_noise: float = 0.15


@dataclass(frozen=True, slots=True)
class Reaction:
    """What the caller does when the answer begins. `after_s`: into the answer. Neither: listens to its end."""

    interrupts: bool
    makes_noise: bool
    after_s: float
    gap_s: float
    """After the answer's end, before the next turn."""


@dataclass(frozen=True, slots=True)
class PlannedTurn:
    """`recordings`: indexes of what is said, with `pauses_s` between them."""

    recordings: tuple[int, ...]
    pauses_s: tuple[float, ...]
    reaction: Reaction


class TurnPlans:
    """The turns of one call, one after another without end. Recordings are dealt like cards: each once before any twice."""

    def __init__(self, recordings: int, manners: Manners, rng: Rng) -> None:
        if recordings < 1:
            raise ValueError(f"recordings is {recordings}; allowed: 1 and up")
        self._recordings = recordings
        self._manners = manners
        self._rng = rng
        self._deck: list[int] = []

    def next(self) -> PlannedTurn:
        count = 2 if self._rng.random() < self._manners.joins else 1
        said = tuple(self._deal() for _ in range(count))
        pauses_s = tuple(self._pause_s() for _ in range(count - 1))
        draw = self._rng.random()
        interrupts = draw < self._manners.interrupts
        makes_noise = not interrupts and draw < self._manners.interrupts + self._manners.makes_noise
        after_s = 0.5 + self._rng.random()
        return PlannedTurn(said, pauses_s, Reaction(interrupts, makes_noise, after_s, 0.3 + 0.9 * self._rng.random()))

    def _deal(self) -> int:
        if not self._deck:
            self._deck = list(range(self._recordings))
        return self._deck.pop(int(self._rng.random() * len(self._deck)))

    def _pause_s(self) -> float:
        # Box and Muller's transform of two even draws to a normal one.
        normal = math.sqrt(-2 * math.log(1 - self._rng.random())) * math.cos(2 * math.pi * self._rng.random())
        return min(_PAUSE_LONGEST_S, _PAUSE_MEDIAN_S * math.exp(_PAUSE_SPREAD * normal))


def plan_starts(count: int, spread_s: float, rng: Rng) -> list[float]:
    """When each of `count` calls dials, at even chance within `spread_s`, in order; a single call dials at once."""
    if count < 1 or spread_s < 0.0:
        raise ValueError(f"count is {count}, spread_s {spread_s}; allowed: 1 and up, spread 0 and up")
    return sorted(rng.random() * spread_s if count > 1 else 0.0 for _ in range(count))
