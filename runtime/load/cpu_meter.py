"""The CPU of this process over its share of the allowed cores. Impossible deltas are rejected, never averaged in."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from runtime.primitives.clock import NS_PER_S
from runtime.primitives.ewma import Ewma

__all__ = ["CpuMeter"]

_SHORTEST_WINDOW_NS: Final = 2 * NS_PER_S


class CpuMeter:
    """Utilisation from readings of used CPU time.

        utilisation = used CPU seconds / (elapsed seconds * cores)        0 and up, 1 = the share is used up

    Args:
        read_used_ns: CPU time that the process tree has used since it began, nanoseconds.
        cores: this runtime's share, above 0.
        available_cores: all that could have worked for us; a delta above that (and 10 % for clock grain) is impossible.
        window_ns: of the mean that is reported.
        fast_tau_ns: time constant of the fast mean that the admission guard looks at.
    """

    def __init__(
        self,
        read_used_ns: Callable[[], int],
        cores: float,
        available_cores: float,
        window_ns: int = 10 * NS_PER_S,
        fast_tau_ns: int = 2 * NS_PER_S,
    ) -> None:
        if cores <= 0 or available_cores <= 0:
            raise ValueError(f"cores is {cores}, available_cores is {available_cores}; allowed: above 0")
        self._read_used_ns = read_used_ns
        self._cores = cores
        self._most_per_ns = 1.1 * max(cores, available_cores)
        self._window_ns = window_ns
        self._readings: deque[tuple[int, int]] = deque()
        self._fast = Ewma(fast_tau_ns)
        self.rejected = 0
        """Impossible deltas seen."""

    def restart(self, now_ns: int) -> None:
        """Forgets the past (the models' loading says nothing about calls)."""
        self._readings.clear()
        self._readings.append((now_ns, self._read_used_ns()))
        self._fast.add(0.0, now_ns)

    def sample(self, now_ns: int) -> None:
        """Takes one reading; call it about twice a second."""
        used_ns = self._read_used_ns()
        if self._readings:
            last_ns, last_used_ns = self._readings[-1]
            elapsed_ns, delta_ns = now_ns - last_ns, used_ns - last_used_ns
            if elapsed_ns <= 0:
                return
            # A tick of the kernel's accounting (10 ms) may fall into a very short span.
            if delta_ns < 0 or delta_ns > elapsed_ns * self._most_per_ns + 20_000_000:
                self.rejected += 1
                self._readings.clear()
                self._readings.append((now_ns, used_ns))
                return
            self._fast.add(delta_ns / elapsed_ns / self._cores, now_ns)
        self._readings.append((now_ns, used_ns))
        while len(self._readings) > 2 and self._readings[1][0] <= now_ns - self._window_ns:
            self._readings.popleft()

    @property
    def window_start_ns(self) -> int:
        return self._readings[0][0] if self._readings else 0

    @property
    def utilisation(self) -> float:
        """Mean over the window; 0 before the second reading.

        A window that has just begun counts as two seconds long: one tick of the kernel's accounting in a few milliseconds
        would read as several cores.
        """
        if len(self._readings) < 2:
            return 0.0
        (first_ns, first_used), (last_ns, last_used) = self._readings[0], self._readings[-1]
        return (last_used - first_used) / max(last_ns - first_ns, _SHORTEST_WINDOW_NS) / self._cores

    @property
    def fast(self) -> float:
        return self._fast.value
