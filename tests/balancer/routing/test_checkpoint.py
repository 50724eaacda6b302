"""A state that is captured, written, read and restored decides on as the one that went on."""

from __future__ import annotations

import json

import numpy as np
import pytest

from balancer.routing.checkpoint import capture, restore, to_json
from balancer.routing.fleet_view import FleetView
from balancer.routing.policies import POLICIES
from balancer.routing.policies.uniform_random import UniformRandom
from balancer.routing.router import Router
from perf.sim.replay import replay
from runtime.primitives.clock import NS_PER_S
from tests.balancer.support.fleets import Told, fleet
from tests.balancer.support.journals import RecordedLife


@pytest.mark.parametrize("policy", POLICIES)
def test_a_file_may_begin_in_the_middle(policy: str) -> None:
    life = RecordedLife(policy)
    life.live(1200)
    life.checkpoint()
    life.live(800)
    found = replay(life.lines())
    assert found["first_difference"] is None
    assert found["ok"]
    assert found["decisions"] > 50


def test_a_second_checkpoint_in_a_file_is_the_same_as_none() -> None:
    life = RecordedLife()
    life.live(300)
    before = list(life.entries)
    life.checkpoint()
    life.live(300)
    life.entries[:0] = before
    assert replay(life.lines())["ok"]


def test_a_captured_state_does_not_change_with_its_view() -> None:
    view = fleet(Told("a", active=2), Told("b"))
    router = Router(UniformRandom(), 3 * NS_PER_S)
    state = capture(view, router)
    before = json.dumps(to_json(state))
    slot = view.slot_of("a")
    assert slot is not None
    view.place(slot, 10)
    view.affinity.lives("call", "a", 10)
    view.remove("b")
    assert json.dumps(to_json(state)) == before


def test_the_columns_are_one_thing_for_view_and_load_model() -> None:
    view, router = fleet(Told("a", active=2)), Router(UniformRandom(), 3 * NS_PER_S)
    other, other_router = FleetView(), Router(UniformRandom(), 3 * NS_PER_S)
    restore(json.loads(json.dumps(to_json(capture(view, router)))), other, other_router)
    assert other.load._columns is other.columns
    slot = other.slot_of("a")
    assert slot is not None
    other.place(slot, 20)
    assert other.columns.estimate[slot] == 3.0
    assert other.columns._floats[0, slot] == other.columns.active[slot] == 2.0
    np.testing.assert_array_equal(other.load.factors.speed, view.load.factors.speed)


def test_what_has_no_place_in_a_checkpoint_is_refused_at_once() -> None:
    class Stranger(UniformRandom):
        pass

    with pytest.raises(TypeError, match="Stranger has no place in a checkpoint"):
        capture(fleet(Told("a")), Router(Stranger(), 3 * NS_PER_S))


def test_no_class_but_those_of_the_table_is_made_from_a_file() -> None:
    view, router = fleet(Told("a")), Router(UniformRandom(), 3 * NS_PER_S)
    state = to_json(capture(view, router))
    state["router"]["_policy"] = {"!": "Popen", "=": {}}
    with pytest.raises(KeyError, match="Popen"):
        restore(state, FleetView(), Router(UniformRandom(), 3 * NS_PER_S))
