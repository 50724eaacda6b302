"""Asides as bytes: what a runtime reads of them, and what of a runtime's is none."""

from __future__ import annotations

import pytest

from balancer.continuity import asides
from balancer.continuity.intents import IntentAnswer, IntentState
from protos.switchboard.v1 import continuity_pb2 as pb


def read(payload: bytes) -> pb.RelayAside:
    return pb.RelayAside.FromString(payload)


def test_what_the_relay_says() -> None:
    assert read(asides.restore(b"s", 4, 3)).restore == pb.Restore(state=b"s", applied=4, replay_from=3)
    assert read(asides.go_on(5, 20)).go_on == pb.GoOn(told=5, silent_ms=20)
    assert read(asides.hand_over(2)).hand_over.number == 2
    assert read(asides.stay()).WhichOneof("said") == "stay"
    assert read(asides.moved_out()).WhichOneof("said") == "moved_out"


@pytest.mark.parametrize(("silent_ms", "told"), [(-5, 0), (0, 0), (2**40, 2**32 - 1)])
def test_silence_beyond_the_wire_is_cut_to_it(silent_ms: int, told: int) -> None:
    assert read(asides.go_on(0, silent_ms)).go_on.silent_ms == told


@pytest.mark.parametrize("state", IntentState)
def test_every_state_of_an_intent_has_a_number_of_its_own(state: IntentState) -> None:
    said = read(asides.intent_answer(3, IntentAnswer(state, "1", True))).intent_answer
    assert (said.number, said.result_json, said.is_error) == (3, "1", True)
    assert pb.IntentState.Name(said.state).removeprefix("INTENT_STATE_").lower() == (
        "unspecified" if state is IntentState.RECORDED else state.value
    )


def test_what_is_none_and_what_is_of_a_newer_runtime() -> None:
    assert asides.read_aside(b"\xff\xff") is None
    newer = asides.read_aside(b"\xfa\x07\x01x")  # an unknown field
    assert newer is not None
    assert newer.WhichOneof("said") is None
