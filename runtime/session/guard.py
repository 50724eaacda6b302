"""The overload guard: closes on saturation, opens again only when well below it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["OverloadGuard", "Saturation"]


@dataclass(frozen=True, slots=True)
class Saturation:
    """What the guard looks at: own utilisation (share of the allowed cores, fast mean) and event-loop lag."""

    utilisation: float
    loop_lag_ms: float


class OverloadGuard:
    """Hysteresis: closes when either signal exceeds its mark, opens when both are below `reopen_ratio` of it."""

    __slots__ = ("_is_closed", "_lag_mark_ms", "_reopen_ratio", "_utilisation_mark")

    def __init__(self, utilisation_mark: float, lag_mark_ms: float, reopen_ratio: float = 0.85) -> None:
        self._utilisation_mark = utilisation_mark
        self._lag_mark_ms = lag_mark_ms
        self._reopen_ratio = reopen_ratio
        self._is_closed = False

    def admits(self, saturation: Saturation) -> bool:
        utilisation = saturation.utilisation / self._utilisation_mark
        lag = saturation.loop_lag_ms / self._lag_mark_ms
        worst = max(utilisation, lag)
        if worst > 1.0:
            self._is_closed = True
        elif worst < self._reopen_ratio:
            self._is_closed = False
        return not self._is_closed
