"""An exponentially weighted mean over irregular samples: decays by elapsed time, not by count."""

from __future__ import annotations

import math

__all__ = ["Ewma"]


class Ewma:
    """Mean with time constant `tau_ns`. Reading never changes it; a sample from the past counts as one of now."""

    __slots__ = ("_at_ns", "_tau_ns", "_value")

    def __init__(self, tau_ns: int) -> None:
        if tau_ns <= 0:
            raise ValueError(f"tau_ns is {tau_ns}; allowed: above 0")
        self._tau_ns = tau_ns
        self._value: float | None = None
        self._at_ns = 0

    @property
    def value(self) -> float:
        """The present mean; 0 before the first sample."""
        return self._value or 0.0

    def add(self, sample: float, now_ns: int) -> None:
        """Takes a finite sample that stands for the time since the last one."""
        if not math.isfinite(sample):
            raise ValueError(f"sample is {sample}; allowed: a finite number")
        if self._value is None:
            self._value = sample
            self._at_ns = now_ns
            return
        elapsed_ns = max(0, now_ns - self._at_ns)
        keep = math.exp(-elapsed_ns / self._tau_ns)
        self._value = keep * self._value + (1.0 - keep) * sample
        self._at_ns = max(self._at_ns, now_ns)
