"""The view: slots stay, masks follow, and every count comes back to zero."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from balancer.routing.fleet_view import FleetView
from balancer.routing.runtime_facts import RuntimeFacts
from runtime.primitives.load_snapshot import RuntimeState
from tests.balancer.support.fleets import NOW, Told, fleet

changes = st.lists(
    st.one_of(
        st.tuples(st.just("remove"), st.integers(0, 40)),
        st.tuples(st.just("put"), st.integers(0, 40), st.integers(1, 3), st.sampled_from(["", "gone"]), st.sampled_from("xy")),
    ),
    max_size=120,
)


@given(changes)
def test_slots_and_masks_follow_the_facts(steps: list[tuple[object, ...]]) -> None:
    view = FleetView()
    truth: dict[str, RuntimeFacts] = {}
    slots: dict[str, int] = {}
    for step in steps:
        name = f"r{step[1]}"
        if step[0] == "remove":
            view.remove(name)
            truth.pop(name, None)
            slots.pop(name, None)
        else:
            _, _, incarnation, ineligible, agent = step
            facts = RuntimeFacts(name, int(str(incarnation)), RuntimeState.READY, str(ineligible), agents=frozenset({str(agent)}))
            slot = view.put(facts)
            assert slots.setdefault(name, slot) == slot  # a runtime keeps its slot
            truth[name] = facts
        mask = view.mask("x", lambda facts: "x" in facts.agents)
        assert len(view) == len(truth)
        assert mask.sum() == sum("x" in facts.agents for facts in truth.values())
        assert len(mask) == view.columns.size
    assert len(set(slots.values())) == len(truth)
    for name, facts in truth.items():
        found = view.slot_of(name)
        assert found == slots[name]
        slot = slots[name]
        assert view.facts(slot) == facts
        assert view.columns.eligible[slot] == (facts.ineligible == "")
        assert view.mask("x", lambda each: "x" in each.agents)[slot] == ("x" in facts.agents)
    assert view.get("nobody") is None
    assert view.columns.ready.sum() == view.columns.used.sum() == len(truth)


def test_masks_are_bounded() -> None:
    view = FleetView()
    view.put(RuntimeFacts("a", 1))
    for key in range(5000):
        view.mask(key, lambda _: True)
    assert len(view._masks) <= 256


def test_a_new_life_begins_with_nothing_known() -> None:
    view = fleet(Told("a", active=3, in_flight=2))
    view.put(RuntimeFacts("a", 2, RuntimeState.READY, hard_limit=8))
    row = view.get("a")
    assert row is not None
    assert (row.active, row.in_flight, row.estimate, row.arrived_ns) == (0, 0, 0.0, None)


placements = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["admitted", "refused", "released", "reported first"])), max_size=40
)


@given(placements)
def test_after_quiescence_every_count_is_exactly_zero(plan: list[tuple[int, str]]) -> None:
    view = fleet(*(Told(name, hard_limit=100) for name in "abc"))
    held = [0, 0, 0]
    for slot, how in plan:
        view.place(slot, NOW)
        match how:
            case "admitted" | "released":
                held[slot] += 1
                view.settle(slot, contained=True)
                view.answer(slot, held[slot], 0, NOW)
                assert view.columns.estimate[slot] == held[slot]
                if how == "released":
                    held[slot] -= 1
                    view.release(slot)
            case "refused":
                view.settle(slot, contained=False)
            case _:
                held[slot] += 1
                Told("abc"[slot], hard_limit=100, active=held[slot], arrived_ns=NOW).tell(view)
                view.settle(slot, contained=True)
        assert view.columns.estimate[slot] == pytest.approx(held[slot])
    for slot, count in enumerate(held):
        for _ in range(count):
            view.end(slot)
    for name in ("in_flight", "estimate", "load", "own"):
        assert getattr(view.columns, name)[:3].tolist() == pytest.approx([0.0, 0.0, 0.0], abs=1e-9), name
    assert view.load.load_now == pytest.approx(0.0, abs=1e-9)
