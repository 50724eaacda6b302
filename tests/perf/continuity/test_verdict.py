"""What a run of calls through harm adds up to: nothing that was lost, late, doubled or out of order goes unseen."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from perf.continuity.caller import Caller, Harm
from perf.continuity.harm import Mode
from perf.continuity.play_out import PlayOut
from perf.continuity.verdict import MovedCall, figures, targets_of


def _caller(**changes: Any) -> Caller:
    harm = Harm()
    harm.at_s = 100.0
    caller = Caller(np.zeros(24_000, np.int16), False, harm)
    caller.turns = ["one two", "one two", "one two"]
    caller.sent_items = caller.acknowledged_items = [0, 1, 2]
    reply = PlayOut()
    for number in range(200):
        reply.take(98.0 + number * 0.02, 0.02)
    caller.replies = {"resp_1": reply}
    for name, value in changes.items():
        setattr(caller, name, value)
    return caller


def _missed(mode: Mode, caller: Caller, moves: list[MovedCall], effects: list[str]) -> set[str]:
    found = figures(mode, [caller], moves, effects, 1.0, has_words=True)
    return {target.name for target in targets_of(mode, found) if not target.is_met}


_MOVED = [MovedCall("call-0", "moved", 0.4, 0.1)]
_DONE = ["a", "b", "c"]
"""What the tool of three turns did."""


def test_a_call_that_nothing_happened_to_meets_all() -> None:
    for mode in Mode:
        moved = [] if mode is Mode.CONTROL else _MOVED
        assert _missed(mode, _caller(), moved, _DONE) == set()


def test_a_call_that_moved_though_only_the_control_was_away_is_seen() -> None:
    assert _missed(Mode.CONTROL, _caller(), _MOVED, _DONE) == {"moved"}


@pytest.mark.parametrize(
    ("changes", "missed"),
    [
        ({"failure": "closed", "turns": ["one"]}, {"calls_lost", "third_turns_answered"}),
        ({"acknowledged_items": [0, 2]}, {"messages_lost"}),
        ({"acknowledged_items": [0, 1, 1, 2]}, {"messages_twice"}),
        ({"acknowledged_items": [0, 2, 1]}, {"messages_out_of_order"}),
        ({"event_ids": Counter({"event_1": 1, "event_2": 2})}, {"event_ids_twice"}),
        ({"event_ids": Counter({"1": 1, "2": 1, "4": 1, "4/said": 1})}, {"ordinals_missing"}),
        ({"event_ids": Counter({"1": 1, "2": 1, "3": 1, "3/said": 1})}, set()),
    ],
)
def test_what_went_wrong_is_seen(changes: dict[str, Any], missed: set[str]) -> None:
    assert _missed(Mode.KILL, _caller(**changes), _MOVED, _DONE) == missed


def test_an_effect_that_happened_twice_is_seen() -> None:
    assert _missed(Mode.KILL, _caller(), _MOVED, ["a", "b", "c", "a"]) == {"effects_twice"}


def test_an_effect_that_is_missing_is_seen_unless_the_agent_says_so() -> None:
    assert _missed(Mode.KILL, _caller(), _MOVED, ["a", "b"]) == {"effects_missing"}
    unsure = _caller(said=["I cannot say whether that was written down."])
    assert _missed(Mode.KILL, unsure, _MOVED, ["a", "b"]) == set()
    assert _missed(Mode.KILL, unsure, _MOVED, ["a"]) == {"effects_missing"}


def test_a_move_that_was_late_or_never_came_is_seen() -> None:
    assert _missed(Mode.KILL, _caller(), [MovedCall("call-0", "moved", 1.5, 0.1)], _DONE) == {"resumed_p99"}
    assert _missed(Mode.KILL, _caller(), [MovedCall("call-0", "gave_up", 0.5, 0.1)], _DONE) == {"moved", "resumed_p99"}
    assert _missed(Mode.KILL, _caller(), [MovedCall("call-9", "moved", 0.4, 0.1)] * 2, _DONE) == set()  # one call, however often


def test_silence_in_the_middle_of_speech_is_seen() -> None:
    reply = PlayOut()
    for number in range(200):
        reply.take(98.0 + number * 0.02 + (0.05 if number > 120 else 0.0), 0.02)
    assert _missed(Mode.DRAIN, _caller(replies={"resp_1": reply}), _MOVED, _DONE) == {"audio_gap_p99"}
    assert _missed(Mode.CONTROL, _caller(replies={"resp_1": reply}), [], _DONE) == {"audio_gap_p99"}


def test_the_words_are_compared_with_the_undisturbed_ones() -> None:
    found = figures(Mode.KILL, [_caller(turns=["one two", "one", "one two"])], _MOVED, [], 1.0, has_words=True)
    assert found["word_error_against_undisturbed"] == 0.5
    assert _missed(Mode.KILL, _caller(turns=["one two", "one", "one two"]), _MOVED, _DONE) == {"word_error_against_undisturbed"}
    assert figures(Mode.KILL, [_caller()], _MOVED, [], 1.0, has_words=False)["word_error_against_undisturbed"] is None
