"""Which of two reports is newer, and how old one is. Age is by the receiver's monotonic clock."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["ReportOrder", "age_ns", "is_fresh", "order_of"]


class ReportOrder(StrEnum):
    NEWER = "newer"
    DUPLICATE = "duplicate"
    REORDERED = "reordered"


def order_of(incarnation: int, sequence: int, last: tuple[int, int] | None) -> ReportOrder:
    """Where a report stands against the last one taken, `(incarnation, sequence)`. Only a newer one may be taken.

    >>> order_of(7, 3, (7, 2)).value, order_of(7, 3, (7, 3)).value, order_of(6, 99, (7, 1)).value
    ('newer', 'duplicate', 'reordered')
    """
    if last is None or (incarnation, sequence) > last:
        return ReportOrder.NEWER
    return ReportOrder.DUPLICATE if (incarnation, sequence) == last else ReportOrder.REORDERED


def age_ns(arrived_ns: int, now_ns: int) -> int:
    """Never negative: an arrival after `now` (two readings raced) is age 0."""
    return max(0, now_ns - arrived_ns)


def is_fresh(arrived_ns: int | None, now_ns: int, max_age_ns: int) -> bool:
    return arrived_ns is not None and age_ns(arrived_ns, now_ns) <= max_age_ns
