"""The recording view and router: they decide as the plain ones do, and note everything that a replay needs."""

from __future__ import annotations

import inspect

import pytest

from balancer.routing import journal
from balancer.routing.fleet_view import FleetView
from balancer.routing.journal import Decide, Entry, RecordingRouter, RecordingView
from balancer.routing.overload import OverloadRule
from balancer.routing.policies import POLICIES
from balancer.routing.request import PlacementRequest
from balancer.routing.router import Router
from perf.sim.replay import replay
from runtime.primitives.clock import NS_PER_S
from runtime.primitives.rng import SeededRng
from tests.balancer.support.fleets import NOW, RULE, Told
from tests.balancer.support.journals import RecordedLife


@pytest.mark.parametrize("policy", POLICIES)
def test_a_whole_life_is_decided_again_bit_by_bit(policy: str) -> None:
    life = RecordedLife(policy)
    life.live(1500)
    found = replay(life.lines())
    assert found["first_difference"] is None
    assert found["ok"]
    assert found["same_decisions"] == found["decisions"] == sum(isinstance(each, Decide) for each in life.entries) > 300


def test_a_change_of_policy_is_part_of_the_log() -> None:
    life = RecordedLife()
    for name in ("random", "weighted_round_robin", "session_aware"):
        life.live(300)
        life.router.use(life.header.options.make(name))
    life.live(300)
    found = replay(life.lines())
    assert found["ok"]
    assert found["log_policies"] == ["session_aware", "random", "weighted_round_robin", "session_aware"]


def test_recording_changes_no_decision() -> None:
    entries: list[Entry] = []
    views: list[FleetView] = [FleetView(RULE), RecordingView(RULE, entries.append)]
    for view in views:
        for name in "abcd":
            Told(name, active=3, hard_limit=100).tell(view)
    make, age = POLICIES["session_aware"], 3 * NS_PER_S
    routers = [Router(make(), age), RecordingRouter(make(), age, 3, OverloadRule(), entries.append)]
    rngs = [SeededRng(5), SeededRng(5)]
    for number in range(50):
        both = [
            one.decide(PlacementRequest(str(number)), view, NOW, rng) for one, view, rng in zip(routers, views, rngs, strict=True)
        ]
        assert both[0] == both[1]
        for view in views:
            view.place(both[0].candidates[0].slot, NOW)
    assert sum(isinstance(each, Decide) for each in entries) == 50


def test_every_door_of_the_view_is_recorded() -> None:
    """A new one that changes something must be recorded, or be named here as one that only reads or calls a recorded one."""
    reads = {
        "facts", "forget_masks", "get", "has_room", "mask", "next_opening_ns", "report_snapshots", "row", "rows", "second_look",
        "slot_of", "slots",
    }  # fmt: skip
    doors = {name for name, _ in inspect.getmembers(FleetView, inspect.isfunction) if not name.startswith("_")}
    assert doors - reads == {name for name in vars(RecordingView) if not name.startswith("_")}
    reads = {"forget_pools", "refusals", "standing"}
    doors = {name for name, _ in inspect.getmembers(Router, inspect.isfunction) if not name.startswith("_")}
    assert doors - reads == {name for name in vars(RecordingRouter) if not name.startswith("_")}
    assert set(journal.__all__) > {"Decide", "Report"}
