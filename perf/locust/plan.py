"""What a simulated caller does, drawn from a seed before the call. Pure.

A caller talks in spurts, waits for the answer and its end, pauses, and talks again; some interrupt the agent, some cancel its
reply, some vanish without a goodbye, and some only listen to an open line.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from runtime.primitives.rng import Rng

__all__ = ["Habits", "SessionPlan", "Spurt", "plan_session"]

_SHORTEST_SESSION_S = 1.0
_SHORTEST_TALK_S = 0.4
"""Less would be a cough to the runtime: it answers nothing that was shorter than a word."""
_SHORTEST_MEAN_S = 0.01
_LONGEST_MEAN_S = 3600.0
"""Beyond these the plan of a single session could fill the memory, or a draw be no number."""
_MAY_BE_ZERO = ("length_sd_s", "between_s")


@dataclass(frozen=True, slots=True)
class Habits:
    """Callers as a population; seconds, and shares from 0 to 1. Raises ValueError, with name, value and range.

    Attributes:
        length_mean_s, length_sd_s: of a session, lognormal. Call centres have about 188 and 240; the defaults fit a short run.
        talk_s: mean length of a spurt of speech, exponential (P.59: 1.0).
        pause_s: mean pause before the next spurt, once the answer is over, exponential (P.59: 1.6).
        between_s: mean pause of a caller between two sessions, exponential.
        idle_share: sessions in which the caller never says a word; the line stays open and silent.
        barge_in_share: spurts that begin while the agent still speaks.
        cancel_share: answers that the caller stops by message.
        disconnect_share: sessions that end without a goodbye, by a cut connection.
    """

    length_mean_s: float = 12.0
    length_sd_s: float = 8.0
    talk_s: float = 1.4
    pause_s: float = 1.6
    between_s: float = 1.0
    idle_share: float = 0.15
    barge_in_share: float = 0.15
    cancel_share: float = 0.1
    disconnect_share: float = 0.2

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name.endswith("_share"):
                if not 0.0 <= value <= 1.0:
                    raise ValueError(f"{field.name} is {value}; allowed: 0 to 1")
            else:
                least = 0.0 if field.name in _MAY_BE_ZERO else _SHORTEST_MEAN_S
                if not least <= value <= _LONGEST_MEAN_S:  # which NaN is not
                    raise ValueError(f"{field.name} is {value}; allowed: {least:g} to {_LONGEST_MEAN_S:g}")


@dataclass(frozen=True, slots=True)
class Spurt:
    """`pause_s` of silence, then `talk_s` of speech; `barges_in`: as soon as the agent speaks, instead of after it.

    `cancels`: the answer to this spurt is stopped by message when it has begun.
    """

    pause_s: float
    talk_s: float
    barges_in: bool
    cancels: bool


@dataclass(frozen=True, slots=True)
class SessionPlan:
    """`spurts` is empty for an idle caller, and otherwise enough for the whole session."""

    length_s: float
    spurts: tuple[Spurt, ...]
    disconnects: bool
    between_s: float

    @property
    def is_idle(self) -> bool:
        return not self.spurts


def lognormal(mean: float, sd: float, rng: Rng) -> float:
    """A draw of the lognormal distribution with that mean and standard deviation (Box-Muller; two draws)."""
    variance = math.log(1.0 + (sd / mean) ** 2)
    normal = math.sqrt(-2.0 * math.log(1.0 - rng.random())) * math.cos(2.0 * math.pi * rng.random())
    return math.exp(math.log(mean) - variance / 2.0 + math.sqrt(variance) * normal)


def exponential(mean: float, rng: Rng) -> float:
    return -mean * math.log(1.0 - rng.random())


def plan_session(habits: Habits, rng: Rng) -> SessionPlan:
    """One session. The same habits and the same draws give the same plan."""
    length_s = max(_SHORTEST_SESSION_S, lognormal(habits.length_mean_s, habits.length_sd_s, rng))
    disconnects = rng.random() < habits.disconnect_share
    between_s = exponential(habits.between_s, rng)
    spurts: list[Spurt] = []
    if rng.random() >= habits.idle_share:
        planned_s = 0.0
        while planned_s < length_s:
            spurt = Spurt(
                pause_s=exponential(habits.pause_s, rng),
                talk_s=max(_SHORTEST_TALK_S, exponential(habits.talk_s, rng)),
                barges_in=bool(spurts) and rng.random() < habits.barge_in_share,
                cancels=rng.random() < habits.cancel_share,
            )
            spurts.append(spurt)
            planned_s += spurt.pause_s + spurt.talk_s
    return SessionPlan(length_s, tuple(spurts), disconnects, between_s)
