"""From the wire's messages to our values. What has no valid value on the wire is named, for the report check to drop."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from balancer.fleet.books import LegChange
from balancer.fleet.registration import BadRegistration, Registration
from protos.switchboard.v1 import load_pb2, registry_pb2
from runtime.primitives.load_snapshot import AdmittedUpto, CostClass, LegTotals, LoadSnapshot, RuntimeState

__all__ = ["LEG_CHANGES", "STATES", "registration_from_wire", "snapshot_from_wire"]

STATES: Final[Mapping[int, RuntimeState]] = MappingProxyType(
    {
        load_pb2.RUNTIME_STATE_STARTING: RuntimeState.STARTING,
        load_pb2.RUNTIME_STATE_READY: RuntimeState.READY,
        load_pb2.RUNTIME_STATE_DRAINING: RuntimeState.DRAINING,
        load_pb2.RUNTIME_STATE_OFFLINE: RuntimeState.OFFLINE,
    }
)
LEG_CHANGES: Final[Mapping[int, LegChange]] = MappingProxyType(
    {
        registry_pb2.LEG_CHANGE_STARTED: LegChange.STARTED,
        registry_pb2.LEG_CHANGE_MOVED_IN: LegChange.MOVED_IN,
        registry_pb2.LEG_CHANGE_ENDED: LegChange.ENDED,
        registry_pb2.LEG_CHANGE_MOVED_OUT: LegChange.MOVED_OUT,
    }
)
_COST_CLASSES: Final = frozenset(CostClass)


def snapshot_from_wire(message: load_pb2.LoadSnapshot) -> tuple[LoadSnapshot, tuple[str, ...]]:
    """The snapshot, and the names of fields that stand in for something untranslatable. Unknown fields are ignored."""
    untranslated = []
    state = STATES.get(message.state)
    if state is None:
        untranslated.append("state")
    cost_class = message.cost_class or CostClass.OWNED.value
    if cost_class not in _COST_CLASSES:
        untranslated.append("cost_class")
    totals = message.totals
    snapshot = LoadSnapshot(
        runtime_id=message.runtime_id,
        incarnation=message.incarnation,
        sequence=message.sequence,
        window_start_ns=message.window_start_ns,
        window_end_ns=message.window_end_ns,
        ledger_version=message.ledger_version,
        active=message.active,
        reserved=message.reserved,
        hard_limit=message.hard_limit,
        totals=LegTotals(
            started=totals.started,
            moved_in=totals.moved_in,
            moved_out=totals.moved_out,
            lost=totals.lost,
            ended=MappingProxyType(dict(totals.ended)),
            refused=MappingProxyType(dict(totals.refused)),
        ),
        state=state or RuntimeState.OFFLINE,
        utilisation=message.utilisation,
        utilisation_fast=message.utilisation_fast,
        machine_utilisation=message.machine_utilisation,
        speaking=message.speaking,
        memory_bytes=message.memory_bytes,
        loop_lag_p99_ms=message.loop_lag_p99_ms,
        missed_audio_deadlines=message.missed_audio_deadlines,
        startup_p99_ms=message.startup_p99_ms,
        queue_length=message.queue_length,
        context_window_remaining=message.context_window_remaining,
        gpu_memory_ratio=message.gpu_memory_ratio,
        kv_cache_ratio=message.kv_cache_ratio,
        abilities=frozenset(message.abilities),
        agents=frozenset(message.agents),
        region=message.region,
        version=message.version,
        cost_class=CostClass(cost_class) if cost_class in _COST_CLASSES else CostClass.OWNED,
        admitted_upto=tuple(
            AdmittedUpto(each.balancer_id, each.balancer_incarnation, each.placement_number) for each in message.admitted_upto
        ),
    )
    return snapshot, tuple(untranslated)


def registration_from_wire(message: registry_pb2.Register) -> Registration:
    """Raises BadRegistration, which names the field."""
    state = STATES.get(message.state)
    if state is None:
        raise BadRegistration("state", message.state, "starting, ready, draining or offline")
    cost_class = message.cost_class or CostClass.OWNED.value
    if cost_class not in _COST_CLASSES:
        raise BadRegistration("cost_class", cost_class[:80], "owned, on_demand or spot")
    return Registration(
        runtime_id=message.runtime_id,
        incarnation=message.incarnation,
        websocket_address=message.websocket_address,
        grpc_address=message.grpc_address,
        hard_limit=message.hard_limit,
        state=state,
        machine_id=message.machine_id,
        region=message.region,
        abilities=frozenset(message.abilities),
        agents=frozenset(message.agents),
        version=message.version or "0",
        sdk_version=message.sdk_version or "0",
        cost_class=CostClass(cost_class),
        live=tuple((leg.session_id, leg.epoch) for leg in message.live),
        ledger_version=message.ledger_version,
    )
