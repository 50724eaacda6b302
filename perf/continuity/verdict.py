"""What the calls and the processes' own words add up to. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from perf.continuity.caller import Caller
from perf.continuity.harm import Mode
from perf.demo.scoring import word_error_rate
from perf.percentile import percentile
from perf.targets import Target

__all__ = ["MovedCall", "figures", "targets_of"]

_GAP_SPAN_S: Final = 8.0
"""Gaps that begin so long after the harm are put down to it."""
_PLANNED: Final = (Mode.MIGRATE, Mode.DRAIN, Mode.DEPLOY)
_DRAIN_50_S: Final = 5.0
_WORD_ERROR: Final = 0.10
"""The same recording twice is not heard alike either: where its frames begin decides a word in some of them."""
_RESUMED_S: Final[Mapping[Mode, float]] = {Mode.KILL: 1.0, Mode.STOP: 4.0, Mode.PARTITION: 4.0, Mode.BLACKOUT: 10.0}
"""A silent runtime is to be found within 3 s; restoring is given one more. Without a control, it is waited for."""


@dataclass(frozen=True, slots=True)
class MovedCall:
    """One line of the balancer's: a move that ended. Seconds after the harm, and of the move itself."""

    session_id: str
    result: str
    ended_s: float
    took_s: float


def figures(
    mode: Mode,
    callers: Sequence[Caller],
    moves: Sequence[MovedCall],
    effects: Sequence[str],
    harm_took_s: float,
    *,
    has_words: bool,
) -> dict[str, Any]:
    """`effects`: idempotency keys, one for each time that a tool did its work. `has_words`: what is recognised is speech."""
    at_s = callers[0].harm.at_s
    spoken = [caller for caller in callers if not caller.interrupts_caller]
    span_s = max(_GAP_SPAN_S, harm_took_s)
    gaps_ms = [_gap_ms(caller, at_s, span_s) for caller in spoken]
    heard = [gap for gap in gaps_ms if gap is not None]
    lost = [caller for caller in callers if caller.failure]
    pairs = [(caller.turns[0], caller.turns[1]) for caller in callers if len(caller.turns) > 1 and has_words]
    done = [move for move in moves if move.result == "moved"]
    missing = sum(len(set(caller.sent_items) - set(caller.acknowledged_items)) for caller in callers if not caller.failure)
    twice = sum(sum(count - 1 for count in Counter(caller.acknowledged_items).values()) for caller in callers)
    unknown = sum("cannot say whether" in text for caller in callers for text in caller.said)
    disorder = sum(caller.acknowledged_items != sorted(caller.acknowledged_items) for caller in callers)
    return {
        "mode": mode.value,
        "calls": len(callers),
        "calls_lost": len(lost),
        "failures": [caller.failure for caller in lost][:10],
        "audio_gap_ms": _percentiles(heard),
        "calls_in_agents_sentence": len(spoken),
        "calls_without_reply_at_harm": len(gaps_ms) - len(heard),
        "moved": len({move.session_id for move in done}),
        "moves_failed": len(moves) - len(done),
        "resumed_ms": _percentiles([move.ended_s * 1_000 for move in done]),
        "move_took_ms": _percentiles([move.took_s * 1_000 for move in done]),
        "messages_sent": sum(len(caller.sent_items) for caller in callers),
        "messages_lost": missing,
        "messages_twice": twice,
        "messages_out_of_order": disorder,
        "event_ids_twice": sum(sum(count - 1 for count in caller.event_ids.values()) for caller in callers),
        "ordinals_missing": sum(_ordinals_missing(caller) for caller in callers),
        "word_error_against_undisturbed": round(word_error_rate(pairs), 4) if pairs else None,
        "effects": len(effects),
        "effects_missing": max(0, sum(len(caller.turns) for caller in callers) - len(set(effects)) - unknown),
        "effects_twice": sum(count - 1 for count in Counter(effects).values()),
        "effects_unknown": unknown,
        "third_turns_answered": sum(len(caller.turns) == 3 for caller in callers),
        "harm_took_s": round(harm_took_s, 3),
        "errors": [error for caller in callers for error in caller.errors][:10],
    }


def targets_of(mode: Mode, found: Mapping[str, Any]) -> list[Target]:
    calls = found["calls"]
    targets = [
        Target("calls_lost", found["calls_lost"], "calls", "==", 0),
        Target("third_turns_answered", found["third_turns_answered"], "calls", "==", calls),
        Target("messages_lost", found["messages_lost"], "messages", "==", 0),
        Target("messages_twice", found["messages_twice"], "messages", "==", 0),
        Target("messages_out_of_order", found["messages_out_of_order"], "calls", "==", 0),
        Target("event_ids_twice", found["event_ids_twice"], "events", "==", 0),
        Target("ordinals_missing", found["ordinals_missing"], "messages", "==", 0),
        Target("effects_twice", found["effects_twice"], "effects", "==", 0),
        Target("effects_missing", found["effects_missing"], "effects", "==", 0),
        Target("moved", found["moved"], "calls", "==", 0 if mode is Mode.CONTROL else calls),
    ]
    if found["word_error_against_undisturbed"] is not None:
        targets.append(
            Target("word_error_against_undisturbed", found["word_error_against_undisturbed"], "share", "<=", _WORD_ERROR)
        )
    if mode in (*_PLANNED, Mode.CONTROL):
        targets.append(Target("audio_gap_p99", found["audio_gap_ms"]["p99"], "ms", "<", 20))
    else:
        targets.append(Target("resumed_p99", found["resumed_ms"]["p99"], "ms", "<", _RESUMED_S[mode] * 1_000))
    if mode is Mode.DRAIN and calls >= 50:
        targets.append(Target("drain", found["harm_took_s"], "s", "<", _DRAIN_50_S))
    return targets


def _gap_ms(caller: Caller, at_s: float, span_s: float) -> float | None:
    """None: no reply played when the harm came, so that nothing can be said."""
    if caller.reply_at(at_s) is None:
        return None
    return max(reply.longest_gap_s(at_s, at_s + span_s) for reply in caller.replies.values()) * 1_000


def _ordinals_missing(caller: Caller) -> int:
    """Messages of the server that never came, on a wire that numbers them from 1."""
    ordinals = [int(name) for name in caller.event_ids if name.isdecimal() and name != "0"]
    return max(ordinals, default=0) - len(ordinals)


def _percentiles(values: Sequence[float]) -> dict[str, float | None]:
    def rounded(ratio: float) -> float | None:
        value = percentile(values, ratio)
        return None if value is None else round(value, 1)

    return {"p50": rounded(0.5), "p99": rounded(0.99), "max": rounded(1.0)}
