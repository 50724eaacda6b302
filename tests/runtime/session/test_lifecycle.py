"""The leg's life: every state with every input, against a second writing of the rules."""

from __future__ import annotations

import itertools

import pytest

from runtime.session.lifecycle import LegInput, LegState, next_state

_EXPECTED = {
    (LegState.RESERVED, LegInput.ATTACH): LegState.ATTACHED,
    (LegState.RESERVED, LegInput.RELEASE): LegState.ENDED,
    (LegState.RESERVED, LegInput.EXPIRE): LegState.ENDED,
    (LegState.ATTACHED, LegInput.START): LegState.ACTIVE,
    (LegState.ATTACHED, LegInput.END): LegState.ENDED,
    (LegState.ATTACHED, LegInput.EXPIRE): LegState.ENDED,
    (LegState.ACTIVE, LegInput.END): LegState.ENDED,
    (LegState.ACTIVE, LegInput.MOVE_OUT): LegState.ENDED,
}


@pytest.mark.parametrize(("state", "given"), list(itertools.product(LegState, LegInput)))
def test_every_state_with_every_input(state: LegState, given: LegInput) -> None:
    assert next_state(state, given) is _EXPECTED.get((state, given))


def test_nothing_leaves_ended() -> None:
    assert all(next_state(LegState.ENDED, given) is None for given in LegInput)
