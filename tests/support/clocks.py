"""Time that stands still until the test moves it."""

from __future__ import annotations

from runtime.primitives.clock import NS_PER_MS

__all__ = ["ManualClock"]


class ManualClock:
    def __init__(self, now_ns: int = 1_000_000_000) -> None:
        self._now_ns = now_ns

    def now_ns(self) -> int:
        return self._now_ns

    def advance_ms(self, milliseconds: float) -> None:
        self._now_ns += int(milliseconds * NS_PER_MS)
