"""How long a second look may take: three times what answers take, within bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from balancer.placement.answer_times import AnswerTimes
from runtime.primitives.clock import NS_PER_MS


def patience_ms(*answers_ms: float) -> float:
    times = AnswerTimes()
    for each in answers_ms:
        times.add(int(each * NS_PER_MS))
    return 1000 * times.patience_s()


@pytest.mark.parametrize(
    ("answers_ms", "expected"),
    [((), 20.0), ((0.1,), 5.0), ((3.0,) * 50, 9.0), ((100.0,) * 3, 20.0), ((2.0,) * 200 + (50.0,), 6.0)],
)
def test_three_times_the_99th_percentile_between_5_and_20_ms(answers_ms: tuple[float, ...], expected: float) -> None:
    assert patience_ms(*answers_ms) == pytest.approx(expected)


def test_the_last_256_count() -> None:
    assert patience_ms(*([100.0] * 50), *([2.0] * 256)) == pytest.approx(6.0)


@given(st.lists(st.floats(0.0, 1000.0), max_size=400))
def test_always_within_its_bounds(answers_ms: list[float]) -> None:
    assert 5.0 - 1e-9 <= patience_ms(*answers_ms) <= 20.0 + 1e-9
