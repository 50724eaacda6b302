"""Order by (incarnation, sequence); age by our own clock, never negative."""

from __future__ import annotations

import pytest

from balancer.capacity.freshness import ReportOrder, age_ns, is_fresh, order_of


@pytest.mark.parametrize(
    ("report", "last", "expected"),
    [
        ((1, 1), None, ReportOrder.NEWER),
        ((1, 2), (1, 1), ReportOrder.NEWER),
        ((2, 1), (1, 900), ReportOrder.NEWER),
        ((1, 1), (1, 1), ReportOrder.DUPLICATE),
        ((1, 1), (1, 2), ReportOrder.REORDERED),
        ((1, 900), (2, 1), ReportOrder.REORDERED),
    ],
)  # bug B13
def test_order(report: tuple[int, int], last: tuple[int, int] | None, expected: ReportOrder) -> None:
    assert order_of(*report, last) is expected


def test_age() -> None:  # bug B11
    assert age_ns(10, 25) == 15
    assert age_ns(25, 10) == 0
    assert is_fresh(10, 25, 15)
    assert not is_fresh(10, 26, 15)
    assert not is_fresh(None, 0, 15)
