"""How long to wait before trying again: exponential, with full jitter, so that a fleet never comes back in step."""

from __future__ import annotations

from runtime.primitives.rng import Rng

__all__ = ["Backoff"]


class Backoff:
    """wait = uniform(0, min(longest, first * 2^failures))      [seconds]"""

    def __init__(self, rng: Rng, first_s: float = 0.1, longest_s: float = 5.0) -> None:
        self._rng = rng
        self._first_s = first_s
        self._longest_s = longest_s
        self._failures = 0

    def succeeded(self) -> None:
        self._failures = 0

    def next_wait_s(self) -> float:
        bound_s = min(self._longest_s, self._first_s * 2.0**self._failures)
        self._failures = min(self._failures + 1, 32)
        return bound_s * self._rng.random()
