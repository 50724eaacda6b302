"""The columns always say what the rows say."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from balancer.routing.fleet_view import NEVER_NS, FleetView, RuntimeRow
from runtime.primitives.load_snapshot import RuntimeState

changes = st.lists(
    st.one_of(
        st.tuples(st.just("remove"), st.integers(0, 40)),
        st.tuples(st.just("put"), st.integers(0, 40), st.integers(0, 9), st.sampled_from(["", "gone"]), st.sampled_from("xy")),
    ),
    max_size=120,
)


@given(changes)
def test_columns_and_masks_follow_the_rows(steps: list[tuple[object, ...]]) -> None:
    view = FleetView()
    truth: dict[str, RuntimeRow] = {}
    for step in steps:
        name = f"r{step[1]}"
        if step[0] == "remove":
            view.remove(name)
            truth.pop(name, None)
        else:
            _, _, active, ineligible, agent = step
            row = RuntimeRow(
                name, 1, RuntimeState.READY, str(ineligible), None, active=int(str(active)), in_flight=2,
                agents=frozenset({str(agent)}),
            )  # fmt: skip
            view.put(row)
            truth[name] = row
        mask = view.mask("x", lambda row: "x" in row.agents)
        assert len(view) == len(truth) == len(mask) == len(view.columns.ready)
    for name, row in truth.items():
        index = view.index_of(name)
        assert index is not None
        assert view.row(index) == view.get(name) == row
        assert view.columns.eligible[index] == (row.ineligible == "")
        assert view.columns.active[index] == row.active
        assert view.columns.estimate[index] == row.active + 2
        assert view.columns.arrived_ns[index] == NEVER_NS
        assert view.mask("x", lambda row: "x" in row.agents)[index] == ("x" in row.agents)
    assert view.get("nobody") is None
    assert np.count_nonzero(view.columns.ready) == len(truth)


def test_masks_are_bounded() -> None:
    view = FleetView()
    view.put(RuntimeRow("a", 1))
    for key in range(5000):
        view.mask(key, lambda row: True)
    assert len(view._masks) <= 256
