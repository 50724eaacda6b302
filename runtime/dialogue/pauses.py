"""How long this caller pauses within a turn, learned, and the silence after which a turn of theirs is over."""

from __future__ import annotations

from typing import Final

__all__ = ["LearnedPauses"]

_SHORTEST_MS: Final = 100.0
"""Shorter dips are closures of consonants, not pauses."""
_LONGEST_MS: Final = 3_000.0
"""Whoever is silent for longer has started anew; learning it as a pause would make every answer late."""
_FEWEST: Final = 3
"""Samples before anything is concluded from them."""
_UNKNOWN_FACTOR: Final = 0.8
"""Of the configured silence, for a caller of whom nothing is known: a turn that was ended too early is taken back, a late answer
is not. Whoever is cut off once is waited for longer at once."""
_MEAN_GAIN: Final = 1 / 8
_DEVIATION_GAIN: Final = 1 / 4
"""The gains of TCP's estimator of a varying delay (RFC 6298, section 2): it has the same task: wait long enough, no longer."""
_DEVIATIONS: Final = 2.0
LEAST_FACTOR: Final = 0.7
MOST_FACTOR: Final = 1.5


class LearnedPauses:
    """wanted = mean + 2 * mean deviation of the pauses seen, clamped to 0.7-1.5 times the configured silence.

    A caller who was cut off (the turn was taken to be over and went on) raises the wait to just above that gap at once; with
    further pauses it comes down again.
    """

    __slots__ = ("_count", "_deviation_ms", "_floor_ms", "_mean_ms")

    def __init__(self, mean_ms: float = 0.0, deviation_ms: float = 0.0, count: int = 0, floor_ms: float = 0.0) -> None:
        self._mean_ms = mean_ms
        self._deviation_ms = deviation_ms
        self._count = count
        self._floor_ms = floor_ms

    @property
    def state(self) -> tuple[float, float, int, float]:
        """What `LearnedPauses(*state)` goes on from."""
        return self._mean_ms, self._deviation_ms, self._count, self._floor_ms

    def paused(self, pause_ms: float) -> None:
        """The caller was silent for so long within a turn, and went on."""
        if not _SHORTEST_MS <= pause_ms <= _LONGEST_MS:
            return
        if not self._count:
            self._mean_ms, self._deviation_ms = pause_ms, pause_ms / 2
        else:
            self._deviation_ms += _DEVIATION_GAIN * (abs(pause_ms - self._mean_ms) - self._deviation_ms)
            self._mean_ms += _MEAN_GAIN * (pause_ms - self._mean_ms)
        self._count += 1
        self._floor_ms *= 1 - _MEAN_GAIN

    def was_cut_off(self, gap_ms: float) -> None:
        """The turn was taken to be over, and the caller went on after `gap_ms` of silence."""
        self.paused(gap_ms)
        if gap_ms <= _LONGEST_MS:
            self._floor_ms = max(self._floor_ms, gap_ms * 1.1)

    def silence_ms(self, configured_ms: float) -> float:
        """The silence to wait for, where `configured_ms` is asked for."""
        learned_ms = (
            self._mean_ms + _DEVIATIONS * self._deviation_ms if self._count >= _FEWEST else _UNKNOWN_FACTOR * configured_ms
        )
        wanted_ms = max(learned_ms, self._floor_ms)
        return min(MOST_FACTOR * configured_ms, max(LEAST_FACTOR * configured_ms, wanted_ms))
