"""What the dispatch measurement counts."""

from __future__ import annotations

import itertools
import json
import math

import pytest

from perf.bench.dispatch import Answers, arrivals, outcome
from runtime.primitives.rng import SeededRng


def _placed(runtime_id: str = "r1") -> bytes:
    return b"HTTP/1.1 201 Created\r\nx: y\r\n\r\n" + json.dumps({"runtime_id": runtime_id, "ticket": "t"}).encode()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (_placed(), ("201", "r1")),
        (_placed()[:-3], ("201 cut off", "")),
        (b'HTTP/1.1 201 Created\r\n\r\n{"runtime_id": "r1", "ticket": ""}', ("201", "")),
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\n{}", ("503", "")),
        (b"", ("no answer", "")),
    ],
)
def test_only_a_place_with_a_ticket_is_one(answer: bytes, expected: tuple[str, str]) -> None:
    assert outcome(answer) == expected


def test_failures_are_counted_and_take_part_in_the_times() -> None:
    answers = Answers()
    assert answers.percentile_ms(0.5) is None
    for number in range(98):
        answers.add(10.0, 10.001 + number / 1e6, _placed("r1" if number % 2 else "r2"))
    answers.add(10.0, 10.5, b"HTTP/1.1 503 x\r\n\r\n{}")
    answers.add(10.0, 11.0, b"")
    assert answers.by_runtime == {"r1": 49, "r2": 49}
    assert answers.failed == {"503": 1, "no answer": 1}
    assert answers.percentile_ms(0.5) == pytest.approx(1.05, abs=0.01)
    assert answers.percentile_ms(0.98) == 500.0
    assert answers.percentile_ms(1.0) == 1000.0


def test_arrivals_are_of_the_seed_in_order_and_as_many_as_asked() -> None:
    moments = arrivals(500, 60, SeededRng(1))
    assert moments == arrivals(500, 60, SeededRng(1)) != arrivals(500, 60, SeededRng(2))
    assert moments == sorted(moments)
    assert len(moments) == 30_000
    assert 0 <= moments[0] <= moments[-1] < 60
    gaps = [later - earlier for earlier, later in itertools.pairwise(moments)]
    mean = sum(gaps) / len(gaps)
    assert math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) == pytest.approx(mean, rel=0.05)  # exponential
