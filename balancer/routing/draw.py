"""Drawing distinct rows by chance, and lowest scores with ties broken by chance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from runtime.primitives.rng import Rng

__all__ = ["draw_distinct", "lowest_first"]


def draw_distinct(kept: NDArray[np.intp], count: int, rng: Rng) -> list[int]:
    """`count` distinct members (or all, if fewer), every order equally likely. Each draw skips those already taken: a repeated
    draw would favour whatever is left less often."""
    size = kept.shape[0]
    if size <= count:
        pool = [int(index) for index in kept]
        for place in range(size - 1):  # Fisher-Yates
            other = place + int(rng.random() * (size - place))
            pool[place], pool[other] = pool[other], pool[place]
        return pool
    taken: list[int] = []
    for already in range(count):
        position = int(rng.random() * (size - already))
        for earlier in sorted(taken):
            if earlier <= position:
                position += 1
        taken.append(position)
    return [int(kept[position]) for position in taken]


def lowest_first(scores: NDArray[np.float64], kept: NDArray[np.intp], count: int, rng: Rng) -> list[int]:
    """At most `count` distinct members of `kept`, lowest score first, equals in random order; `scores[i]` is of `kept[i]`."""
    chosen: list[int] = []
    while kept.shape[0] and len(chosen) < count:
        best = scores == scores.min()
        equals = kept[best]
        chosen.extend(draw_distinct(equals, count - len(chosen), rng))
        if len(chosen) >= count or equals.shape[0] == kept.shape[0]:
            break
        rest = ~best
        kept, scores = kept[rest], scores[rest]
    return chosen
