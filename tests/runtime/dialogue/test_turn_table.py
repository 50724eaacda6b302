"""The turn table: every floor with every happening, and what must hold along any way through it."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.dialogue.turn_table import TURN_TABLE, UNPROVEN, Action, Floor, Happening, next_turn

_STOPS_A_REPLY = {Action.BARGE_IN, Action.CANCEL, Action.RETRACT}
_REPLYING = {Floor.THINKING, Floor.DOUBTING, Floor.SPEAKING, Floor.INTERRUPTED}
_WAITS_FOR_THE_CALLER = {Floor.HEARING, Floor.DECIDING}


@pytest.mark.parametrize(("floor", "happening"), list(itertools.product(Floor, Happening)))
def test_every_floor_with_every_happening(floor: Floor, happening: Happening) -> None:
    following, action = next_turn(floor, happening)
    if (floor, happening) not in TURN_TABLE:
        assert (following, action) == (floor, Action.NONE)
    if action in _STOPS_A_REPLY:
        assert floor in _REPLYING
        assert following not in _REPLYING
    match action:
        case Action.REPLY:
            assert following is Floor.THINKING
            assert floor not in _REPLYING
        case Action.REFUSE | Action.NOTHING_TO_CANCEL:
            assert following is floor
            assert (action is Action.REFUSE) == (happening is Happening.REQUEST)
        case Action.HOLD:
            assert (floor, following) == (Floor.SPEAKING, Floor.INTERRUPTED)
        case Action.DELAY:
            assert (floor, following) == (Floor.THINKING, Floor.DOUBTING)
        case Action.RESUME:
            assert (floor, following) in {(Floor.INTERRUPTED, Floor.SPEAKING), (Floor.DOUBTING, Floor.THINKING)}
        case Action.RETRACT | Action.WITHDRAW:
            assert following is Floor.HEARING
        case Action.LISTEN_AHEAD | Action.KEEP_LISTENING:
            assert floor in {*_WAITS_FOR_THE_CALLER, *UNPROVEN}
        case _:
            pass


@given(st.lists(st.sampled_from(Happening), max_size=60))
def test_a_reply_runs_exactly_between_reply_and_its_end(happenings: list[Happening]) -> None:
    floor, is_running, is_held = Floor.LISTENING, False, False
    for happening in happenings:
        floor, action = next_turn(floor, happening)
        if action is Action.REPLY:
            assert not is_running
            is_running = True
        elif action in _STOPS_A_REPLY or (is_running and happening is Happening.FINISHED):
            assert is_running
            is_running = is_held = False
        elif action in (Action.HOLD, Action.DELAY, Action.RESUME):
            assert is_held is (action is Action.RESUME)
            is_held = not is_held
        assert is_running == (floor in _REPLYING)
        assert is_held == (floor in UNPROVEN)


def test_the_caller_gets_the_floor_or_the_output_is_held() -> None:  # requirement V2
    following = {floor: next_turn(floor, Happening.SPEECH)[0] for floor in Floor}
    assert following.pop(Floor.THINKING) is Floor.DOUBTING
    assert following.pop(Floor.DOUBTING) is Floor.DOUBTING
    assert following.pop(Floor.SPEAKING) is Floor.INTERRUPTED
    assert following.pop(Floor.INTERRUPTED) is Floor.INTERRUPTED
    assert set(following.values()) == {Floor.HEARING}


def test_no_floor_is_a_dead_end() -> None:
    """From each floor the two things that always come, the end of speech and the end of work, lead back to listening."""
    ways = {
        Floor.LISTENING: [],
        Floor.HEARING: [Happening.SILENCE, Happening.NO_WORDS],
        Floor.DECIDING: [Happening.SILENCE, Happening.WORDS, Happening.FINISHED],
        Floor.TRANSCRIBING: [Happening.NO_WORDS],
        Floor.THINKING: [Happening.FINISHED],
        Floor.SPEAKING: [Happening.FINISHED],
        Floor.DOUBTING: [Happening.DISPROVEN, Happening.FINISHED],
        Floor.INTERRUPTED: [Happening.DISPROVEN, Happening.FINISHED],
    }
    for floor, way in ways.items():
        at = floor
        for happening in way:
            at, _ = next_turn(at, happening)
        assert at is Floor.LISTENING


def test_what_stops_a_reply_over_its_voice_stops_one_that_is_being_made() -> None:
    """Before its first audio a reply is no easier to interrupt than after it."""
    for happening in Happening:
        if happening not in (Happening.DISPROVEN, Happening.NO_WORDS):
            following, action = next_turn(Floor.INTERRUPTED, happening)
            same = Floor.DOUBTING if following is Floor.INTERRUPTED else following
            assert next_turn(Floor.DOUBTING, happening) == (same, action)
