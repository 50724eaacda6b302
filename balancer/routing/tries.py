"""Where to ask for a place, and when to stop asking: the pure half of reserve, verify, escalate.

The first candidate is asked. Its answer carries fresh load: at or below the candidate's `enough` it is taken. Else it is kept
as a fallback and the next is asked; of two admitted places the less full stays and the other is given back at once, so at most
two are ever held.
"""

from __future__ import annotations

from dataclasses import dataclass

from balancer.routing.decision import Candidate

__all__ = ["Step", "Tries"]


@dataclass(slots=True)
class Step:
    """What to do next. `take`: the session goes there, it is over. `ask` and `take` both None: nobody gave a place."""

    ask: Candidate | None = None
    take: Candidate | None = None
    release: Candidate | None = None


class Tries:
    """One placement. Call `first`, then `admitted` or `refused` after each answer, until a step asks nobody."""

    __slots__ = ("_candidates", "_held", "_held_fullness", "_next")

    def __init__(self, candidates: list[Candidate]) -> None:
        self._candidates = candidates
        self._next = 0
        self._held: Candidate | None = None
        self._held_fullness = 0.0

    @property
    def held(self) -> Candidate | None:
        """An admitted place that waits while another is asked."""
        return self._held

    def first(self) -> Step:
        return Step(ask=self._another())

    def admitted(self, candidate: Candidate, load: float, fullness: float) -> Step:
        """`load` and `fullness` as `FleetView.second_look` gives them."""
        release: Candidate | None = None
        if load <= candidate.enough:
            release, self._held = self._held, None
            return Step(take=candidate, release=release)
        if self._held is None or fullness < self._held_fullness:
            release, self._held, self._held_fullness = self._held, candidate, fullness
        else:
            release = candidate
        another = self._another()
        if another is None:
            return Step(take=self._held, release=release)
        return Step(ask=another, release=release)

    def refused(self) -> Step:
        """No place there (or no answer in time)."""
        another = self._another()
        return Step(ask=another) if another is not None else Step(take=self._held)

    def _another(self) -> Candidate | None:
        if self._next >= len(self._candidates):
            return None
        self._next += 1
        return self._candidates[self._next - 1]
