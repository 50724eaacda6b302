"""Time as an argument: the clock protocol that drivers are given, and the real one."""

from __future__ import annotations

import time
from typing import Final, Protocol

__all__ = ["NS_PER_MS", "NS_PER_S", "Clock", "MonotonicClock"]

NS_PER_MS: Final = 1_000_000
NS_PER_S: Final = 1_000_000_000


class Clock(Protocol):
    """Answers the present instant in integer nanoseconds; never goes back, has no meaning across machines."""

    def now_ns(self) -> int: ...


class MonotonicClock:
    """The machine's monotonic clock (the same one the kernel stamps with)."""

    __slots__ = ()

    def now_ns(self) -> int:
        return time.monotonic_ns()
