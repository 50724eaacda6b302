"""A snapshot as the protobuf message that goes to balancers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from protos.switchboard.v1 import load_pb2 as pb
from runtime.primitives.load_snapshot import LoadSnapshot, RuntimeState

__all__ = ["STATE_NUMBERS", "snapshot_message"]

STATE_NUMBERS: Final[Mapping[RuntimeState, pb.RuntimeState.ValueType]] = {
    RuntimeState.STARTING: pb.RUNTIME_STATE_STARTING,
    RuntimeState.READY: pb.RUNTIME_STATE_READY,
    RuntimeState.DRAINING: pb.RUNTIME_STATE_DRAINING,
    RuntimeState.OFFLINE: pb.RUNTIME_STATE_OFFLINE,
}


def snapshot_message(snapshot: LoadSnapshot) -> pb.LoadSnapshot:
    totals = snapshot.totals
    return pb.LoadSnapshot(
        runtime_id=snapshot.runtime_id,
        incarnation=snapshot.incarnation,
        sequence=snapshot.sequence,
        window_start_ns=snapshot.window_start_ns,
        window_end_ns=snapshot.window_end_ns,
        ledger_version=snapshot.ledger_version,
        active=snapshot.active,
        speaking=snapshot.speaking,
        idle=snapshot.idle,
        reserved=snapshot.reserved,
        hard_limit=snapshot.hard_limit,
        totals=pb.LegTotals(
            started=totals.started,
            moved_in=totals.moved_in,
            moved_out=totals.moved_out,
            lost=totals.lost,
            ended=dict(totals.ended),
            refused=dict(totals.refused),
        ),
        utilisation=snapshot.utilisation,
        utilisation_fast=snapshot.utilisation_fast,
        machine_utilisation=snapshot.machine_utilisation,
        memory_bytes=snapshot.memory_bytes,
        loop_lag_p99_ms=snapshot.loop_lag_p99_ms,
        missed_audio_deadlines=snapshot.missed_audio_deadlines,
        startup_p99_ms=snapshot.startup_p99_ms,
        queue_length=snapshot.queue_length,
        context_window_remaining=snapshot.context_window_remaining,
        gpu_memory_ratio=snapshot.gpu_memory_ratio,
        kv_cache_ratio=snapshot.kv_cache_ratio,
        state=STATE_NUMBERS[snapshot.state],
        abilities=sorted(snapshot.abilities),
        agents=sorted(snapshot.agents),
        region=snapshot.region,
        version=snapshot.version,
        cost_class=snapshot.cost_class,
        admitted_upto=[
            pb.AdmittedUpto(
                balancer_id=upto.balancer_id,
                balancer_incarnation=upto.balancer_incarnation,
                placement_number=upto.placement_number,
            )
            for upto in snapshot.admitted_upto
        ],
    )
