"""Backoff: bounded, fully jittered, and it starts over."""

from __future__ import annotations

from runtime.primitives.backoff import Backoff
from runtime.primitives.rng import SeededRng


def test_it_is_bounded_jittered_and_starts_over() -> None:
    backoff = Backoff(SeededRng(1), first_s=0.1, longest_s=2.0)
    assert backoff.next_wait_s() <= 0.1
    waits = [backoff.next_wait_s() for _ in range(2000)]
    assert max(waits) <= 2.0
    assert 0.9 < sum(waits[10:]) / len(waits[10:]) < 1.1  # full jitter: half the bound on average
    backoff.succeeded()
    assert backoff.next_wait_s() <= 0.1
