"""A snapshot's message carries every field."""

from __future__ import annotations

import dataclasses

from runtime.codec.snapshot_message import snapshot_message
from runtime.primitives.load_snapshot import AdmittedUpto, CostClass, LegTotals, LoadSnapshot, RuntimeState


def test_every_field_arrives() -> None:  # requirement S4
    snapshot = LoadSnapshot(
        runtime_id="r",
        incarnation=1,
        sequence=2,
        window_start_ns=3,
        window_end_ns=4,
        ledger_version=5,
        active=9,
        reserved=7,
        hard_limit=8,
        totals=LegTotals(10, 11, 12, 13, {"drained": 14}, {"limit": 15}),
        state=RuntimeState.DRAINING,
        utilisation=0.16,
        utilisation_fast=0.17,
        machine_utilisation=0.18,
        speaking=6,
        memory_bytes=19,
        loop_lag_p99_ms=20.0,
        missed_audio_deadlines=21,
        startup_p99_ms=22.0,
        queue_length=23,
        context_window_remaining=24,
        gpu_memory_ratio=0.25,
        kv_cache_ratio=0.26,
        abilities=frozenset({"a"}),
        agents=frozenset({"b"}),
        region="c",
        version="1.2",
        cost_class=CostClass.SPOT,
        admitted_upto=(AdmittedUpto("x", 27, 28),),
    )
    message = snapshot_message(snapshot)
    named = {descriptor.name for descriptor, _ in message.ListFields()}
    assert named == {field.name for field in dataclasses.fields(snapshot)} | {"idle"}
    assert message.idle == 3
    assert message.totals.ended["drained"] == 14
    assert message.admitted_upto[0].placement_number == 28
