"""How long to wait before the next try: exponential with full jitter, so that those who lost one peer do not return in step."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.primitives.rng import Rng

__all__ = ["Backoff"]


@dataclass(slots=True)
class Backoff:
    """The wait before try n is uniform in [0, min(longest, first * 2**(n-1))]; a success starts over."""

    first_s: float = 0.1
    longest_s: float = 2.0
    _failures: int = 0

    def next_wait_s(self, rng: Rng) -> float:
        ceiling = min(self.longest_s, self.first_s * 2.0 ** min(self._failures, 30))
        self._failures += 1
        return rng.random() * ceiling

    def succeeded(self) -> None:
        self._failures = 0
