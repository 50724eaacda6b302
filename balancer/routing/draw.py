"""Drawing distinct runtimes: by even chance, by weight, and lowest scores with ties broken by chance."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from balancer.routing.policy import Choice, Question
from runtime.primitives.rng import Rng

__all__ = ["by_weight", "draw_distinct", "lowest"]

_NOTHING: Final = 1e-200


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


def lowest(scores: NDArray[np.float64], question: Question, rng: Rng) -> list[Choice]:
    """At most `count` distinct slots of the pool, lowest score first, equals in random order; `scores[i]` is of `kept[i]`."""
    kept, count = question.pool.kept, question.count
    chosen: list[Choice] = []
    while kept.shape[0] and len(chosen) < count:
        least = float(scores.min())
        best = scores == least
        equals = kept[best]
        chosen.extend(Choice(slot, least) for slot in draw_distinct(equals, count - len(chosen), rng))
        if len(chosen) >= count or equals.shape[0] == kept.shape[0]:
            break
        rest = ~best
        kept, scores = kept[rest], scores[rest]
    return chosen


def by_weight(weights: NDArray[np.float64], question: Question, rng: Rng) -> list[Choice]:
    """At most `count` distinct slots of the pool, drawn one after the other in proportion to `weights` (finite, at least 0) of
    those that are left; where all weights are 0, by even chance. O(n) a draw."""
    kept = question.pool.kept
    weights = weights.copy()
    chosen: list[Choice] = []
    for _ in range(min(question.count, kept.shape[0])):
        cumulative = weights.cumsum()
        top = float(cumulative[-1])
        if top <= _NOTHING:
            left = np.setdiff1d(kept, [each.slot for each in chosen])
            chosen.extend(Choice(slot, 0.0) for slot in draw_distinct(left, question.count - len(chosen), rng))
            break
        place = int(cumulative.searchsorted(rng.random() * top, "right"))
        if place >= kept.shape[0] or weights[place] <= 0.0:  # rounding at the very end
            place = int(weights.argmax())
        chosen.append(Choice(int(kept[place]), -float(weights[place])))
        weights[place] = 0.0
    return chosen
