"""Drawn by what is left of four resources: W = a*cpu + b*gpu memory + c*queue + d*kv cache, each free share in 0-1."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from balancer.routing.draw import by_weight
from balancer.routing.policy import Choice, Question
from runtime.primitives.rng import Rng

__all__ = ["Remaining", "WeightedRemaining"]


@dataclass(frozen=True, slots=True)
class Remaining:
    """The four weights. Raises ValueError, with the numbers, unless they are at least 0 and sum to 1."""

    cpu: float = 0.2
    gpu_memory: float = 0.5
    queue: float = 0.2
    kv_cache: float = 0.1

    def __post_init__(self) -> None:
        weights = (self.cpu, self.gpu_memory, self.queue, self.kv_cache)
        if not all(math.isfinite(each) and each >= 0.0 for each in weights) or abs(sum(weights) - 1.0) > 1e-6:
            raise ValueError(f"the weights of weighted_remaining are {weights}, sum {sum(weights)}; allowed: at least 0, sum 1")


class WeightedRemaining:
    """What a runtime does not have (no GPU, no KV cache) is left out and the other weights grow in proportion. An unknown CPU is
    the others' mean and a deviation: unknown is not idle."""

    name = "weighted_remaining"
    claim = "drawn by its remaining resources"
    uses_capacity = False

    def __init__(self, weights: Remaining | None = None) -> None:
        self._weights = weights or Remaining()

    def order(self, question: Question, rng: Rng) -> list[Choice]:
        columns, kept, weights = question.view.columns, question.pool.kept, self._weights
        cpu = columns.utilisation[kept]
        unknown = np.isnan(cpu)
        if unknown.any():
            known = cpu[~unknown]
            cpu = np.where(unknown, known.mean() + known.std() if known.size else 1.0, cpu)
        gpu, kv = columns.gpu_memory_ratio[kept], columns.kv_cache_ratio[kept]
        queue_free = 1.0 / (1.0 + columns.queue_length[kept])
        parts = (
            (weights.cpu, np.ones(kept.shape[0], np.bool_), np.clip(1.0 - cpu, 0.0, 1.0)),
            (weights.gpu_memory, gpu >= 0.0, np.clip(1.0 - gpu, 0.0, 1.0)),
            (weights.queue, np.ones(kept.shape[0], np.bool_), queue_free),
            (weights.kv_cache, kv >= 0.0, np.clip(1.0 - kv, 0.0, 1.0)),
        )
        total, score = np.zeros(kept.shape[0]), np.zeros(kept.shape[0])
        for weight, has, free in parts:
            total += weight * has
            score += weight * has * free
        return by_weight(np.where(total > 0.0, score / np.maximum(total, 1e-9), 0.0), question, rng)
