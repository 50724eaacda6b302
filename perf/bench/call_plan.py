"""Who calls when and says what: a voice load as plain values, drawn from a seed. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.primitives.rng import Rng

__all__ = ["PlannedCall", "plan_calls"]


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """`start_s`: when it dials, from the wave's beginning. `recordings`: indexes of what it says, one after another."""

    start_s: float
    recordings: tuple[int, ...]


def plan_calls(count: int, turns: int, recordings: int, spread_s: float, rng: Rng) -> list[PlannedCall]:
    """`count` calls of `turns` recordings each, started at even chance within `spread_s`; a single call starts at once.

    The recordings are dealt like cards, so that each is spoken before any is spoken again. Costs are linear.
    """
    if count < 1 or turns < 1 or recordings < 1 or spread_s < 0.0:
        raise ValueError(
            f"count {count}, turns {turns}, recordings {recordings}, spread_s {spread_s}; allowed: 1 and up, spread 0 up"
        )
    deck: list[int] = []
    calls = []
    for _ in range(count):
        said = []
        for _ in range(turns):
            if not deck:
                deck = list(range(recordings))
            said.append(deck.pop(int(rng.random() * len(deck))))
        calls.append(PlannedCall(rng.random() * spread_s if count > 1 else 0.0, tuple(said)))
    return sorted(calls, key=lambda call: call.start_s)
