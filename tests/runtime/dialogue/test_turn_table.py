"""The turn table: every floor with every happening, and what must hold along any way through it."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.dialogue.turn_table import TURN_TABLE, Action, Floor, Happening, next_turn

_STOPS_A_REPLY = {Action.BARGE_IN, Action.CANCEL}
_REPLYING = {Floor.THINKING, Floor.SPEAKING}


@pytest.mark.parametrize(("floor", "happening"), list(itertools.product(Floor, Happening)))
def test_every_floor_with_every_happening(floor: Floor, happening: Happening) -> None:
    following, action = next_turn(floor, happening)
    if (floor, happening) not in TURN_TABLE:
        assert (following, action) == (floor, Action.NONE)
    if action in _STOPS_A_REPLY:
        assert floor in _REPLYING
        assert following not in _REPLYING
    if action is Action.REPLY:
        assert following is Floor.THINKING
        assert floor not in _REPLYING
    if action in (Action.REFUSE, Action.NOTHING_TO_CANCEL):
        assert following is floor


@given(st.lists(st.sampled_from(Happening), max_size=60))
def test_a_reply_runs_exactly_between_reply_and_its_end(happenings: list[Happening]) -> None:
    floor, is_running = Floor.LISTENING, False
    for happening in happenings:
        floor, action = next_turn(floor, happening)
        if action is Action.REPLY:
            assert not is_running
            is_running = True
        elif action in _STOPS_A_REPLY or (is_running and floor is Floor.LISTENING):
            assert is_running
            is_running = False
        assert is_running == (floor in _REPLYING)


def test_the_caller_always_gets_the_floor() -> None:  # requirement V2
    assert all(next_turn(floor, Happening.SPEECH)[0] is Floor.HEARING for floor in Floor)
