"""The comparison says what it says of the numbers, and a peer that is absent is a target that is missed."""

from __future__ import annotations

from typing import Any

from perf.bench.relay_peers import targets_of


def _row(cpu_us: float, opened: float, idle_kib: float = 5.0) -> dict[str, Any]:
    flat_out = {"cpu_us_per_frame": cpu_us, "opened_per_s": opened}
    return {"flat_out": flat_out, "idle_kib": {"1000": idle_kib, "5000": idle_kib}}


def _missed(**found: Any) -> dict[str, float | None]:
    return {target.name: target.value for target in targets_of(found) if not target.is_met}


def test_each_target_is_a_ratio_to_a_peer() -> None:
    peers = {"haproxy": _row(4.0, 10_000), "envoy": _row(7.0, 5_000)}
    assert _missed(relay=_row(5.0, 6_000), **peers) == {}
    assert _missed(relay=_row(8.0, 4_000, 12.0), **peers) == {
        "cpu_per_frame_over_haproxy": 2.0,
        "cpu_per_frame_over_envoy": 1.14,
        "set_up_over_haproxy": 2.5,
        "kib_per_idle_connection": 12.0,
    }


def test_a_peer_that_is_not_there_meets_nothing() -> None:
    absent = _missed(relay=_row(1.0, 9_000), haproxy="not on this machine", envoy="not on this machine")
    assert set(absent.values()) == {None}
    assert len(absent) == 3
