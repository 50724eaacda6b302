"""How an agent's audio sounds to a caller who plays it as it comes: where it runs dry. Pure: times are arguments, in seconds."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Gap", "PlayOut"]


@dataclass(frozen=True, slots=True)
class Gap:
    """Silence in the middle of speech."""

    at_s: float
    gap_s: float


@dataclass(slots=True)
class PlayOut:
    """Of one reply. Play-out begins with the first frame; what comes in time is played without a gap.

    >>> play_out = PlayOut()
    >>> for at_s in (0.0, 0.01, 0.07):
    ...     play_out.take(at_s, 0.02)
    >>> [(round(gap.at_s, 3), round(gap.gap_s, 3)) for gap in play_out.gaps]
    [(0.04, 0.03)]
    """

    ends_s: float | None = None
    begins_s: float | None = None
    gaps: list[Gap] = field(default_factory=list)

    def take(self, now_s: float, audio_s: float) -> None:
        if self.ends_s is None:
            self.begins_s = self.ends_s = now_s
        elif now_s > self.ends_s:
            self.gaps.append(Gap(self.ends_s, now_s - self.ends_s))
            self.ends_s = now_s
        self.ends_s += audio_s

    def longest_gap_s(self, from_s: float, until_s: float) -> float:
        """The longest that began within the span; 0: none did."""
        return max((gap.gap_s for gap in self.gaps if from_s <= gap.at_s <= until_s), default=0.0)

    def was_playing(self, at_s: float) -> bool:
        return self.begins_s is not None and self.ends_s is not None and self.begins_s <= at_s <= self.ends_s
