"""Every state and every input: what may follow, and what must hold on every way through the table."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from balancer.continuity.move_table import MOVE_TABLE, MoveEffect, MoveInput, MoveState, Step, step


@pytest.mark.parametrize(("state", "happened"), list(itertools.product(MoveState, MoveInput)))
def test_every_pair_is_a_row_or_changes_nothing(state: MoveState, happened: MoveInput) -> None:
    made = step(state, happened)
    assert made == MOVE_TABLE.get((state, happened), Step(state))
    assert state is not MoveState.ENDED or made == Step(MoveState.ENDED)


def test_the_calls_end_ends_it_in_every_state() -> None:
    assert all(step(state, MoveInput.OVER).state is MoveState.ENDED for state in MoveState)


def test_no_runtime_is_given_up_while_it_serves() -> None:
    givers = [state for (state, _), made in MOVE_TABLE.items() if MoveEffect.GIVE_UP in made.effects]
    assert givers == [MoveState.ORPHANED]


class Machine(RuleBasedStateMachine):
    """A relay that does what the table says and keeps count of who is connected. Inputs come only when they can."""

    def __init__(self) -> None:
        super().__init__()
        self.state = MoveState.SERVING
        self.has_source = True
        self.is_searching = False
        self.has_target = False
        self.target_has_state = False
        self.source_is_asked = False

    def feed(self, happened: MoveInput) -> None:
        made = step(self.state, happened)
        self.state = made.state
        for effect in made.effects:
            self.do(effect)

    def do(self, effect: MoveEffect) -> None:
        match effect:
            case MoveEffect.SEEK:
                assert not self.is_searching
                assert not self.has_target
                self.is_searching = True
            case MoveEffect.STOP_SEEKING:
                self.is_searching = False
            case MoveEffect.ASK_FOR_STATE:
                assert self.has_source
                self.source_is_asked = True
            case MoveEffect.RESTORE:
                assert self.has_target
                self.target_has_state = True
            case MoveEffect.STAY:
                assert self.has_source
                assert self.source_is_asked
                self.source_is_asked = False
            case MoveEffect.DROP_TARGET:
                self.has_target = self.target_has_state = False
            case MoveEffect.RELEASE_SOURCE | MoveEffect.CUT_SOURCE:
                assert self.has_source
                assert self.has_target  # nothing is cut before somebody else is there
                self.has_source = self.source_is_asked = False
            case MoveEffect.GO_ON:
                assert self.has_target
                assert self.target_has_state
                assert not self.has_source  # never two that speak
                self.has_source, self.has_target, self.target_has_state = True, False, False
            case MoveEffect.GIVE_UP:
                assert not self.has_source
            case MoveEffect.HOLD:
                assert not self.has_source
            case MoveEffect.MOVED | MoveEffect.FAILED:
                pass

    @precondition(lambda self: self.has_source)
    @rule(happened=st.sampled_from([MoveInput.WANTED, MoveInput.SILENT, MoveInput.HEARD]))
    def time_passes(self, happened: MoveInput) -> None:
        self.feed(happened)

    @precondition(lambda self: self.has_source)
    @rule()
    def source_goes(self) -> None:
        self.has_source = self.source_is_asked = False
        self.feed(MoveInput.LOST)

    @precondition(lambda self: self.is_searching)
    @rule(is_found=st.booleans())
    def search_ends(self, is_found: bool) -> None:
        self.is_searching = False
        self.has_target = is_found
        self.feed(MoveInput.ARRIVED if is_found else MoveInput.NOT_FOUND)

    @precondition(lambda self: self.source_is_asked)
    @rule()
    def state_comes(self) -> None:
        self.feed(MoveInput.STATE_CAME)

    @precondition(lambda self: self.has_target)
    @rule(is_ready=st.booleans())
    def target_says(self, is_ready: bool) -> None:
        self.feed(MoveInput.READY if is_ready and self.target_has_state else MoveInput.TARGET_FAILED)

    @rule()
    def deadline_passes(self) -> None:
        self.feed(MoveInput.LATE)

    @rule(ends=st.integers(0, 9))
    def call_ends(self, ends: int) -> None:
        if not ends:
            self.feed(MoveInput.OVER)

    @invariant()
    def the_state_is_what_is_there(self) -> None:
        match self.state:
            case MoveState.SERVING:
                assert (self.has_source, self.has_target, self.is_searching, self.source_is_asked) == (True, False, False, False)
            case MoveState.SEEKING | MoveState.SUSPECTED:
                assert (self.has_source, self.has_target, self.is_searching) == (True, False, True)
            case MoveState.HANDING_OVER | MoveState.RESTORING:
                assert (self.has_source, self.has_target, self.is_searching) == (True, True, False)
            case MoveState.ORPHANED:
                assert (self.has_source, self.has_target, self.is_searching) == (False, False, True)
            case MoveState.ENDED:
                assert not self.is_searching
                assert not self.has_target


TestMachine = Machine.TestCase
