"""The only place that knows which concrete things the balancer is made of."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass

import structlog

from balancer.app.settings import BalancerSettings
from balancer.dashboard.controls import Controls
from balancer.dashboard.documents import Documents
from balancer.fleet.channels import RuntimeChannels
from balancer.fleet.fleet import BalancerLife, Fleet, FleetEvent
from balancer.fleet.fleet_sweep import FleetSweep
from balancer.fleet.registry_service import RegistryService
from balancer.fleet.report_watch import ReportWatch
from balancer.front.front_rule import FrontRule
from balancer.front.front_server import FrontServer
from balancer.front.relay import RelayRule
from balancer.placement.placer import Placer
from balancer.placement.releases import Releases
from balancer.placement.reservation import Reservations
from balancer.routing.decision_log import DecisionLog
from balancer.routing.router import Router
from balancer.telemetry.metrics import BalancerMetrics
from runtime.primitives.clock import NS_PER_MS, MonotonicClock
from runtime.primitives.rng import SeededRng

__all__ = ["Balancer", "wire"]


@dataclass(frozen=True, slots=True)
class Balancer:
    """Everything that runs, joined but not started. Channels are made on first use, inside the event loop."""

    clock: MonotonicClock
    fleet: Fleet
    channels: RuntimeChannels
    registry: RegistryService
    sweep: FleetSweep
    releases: Releases
    placer: Placer
    front: FrontServer
    documents: Documents
    controls: Controls
    metrics: BalancerMetrics


def wire(settings: BalancerSettings, log: structlog.typing.FilteringBoundLogger) -> Balancer:
    """Must be called inside the running event loop."""
    clock = MonotonicClock()
    rng = SeededRng()
    now_ns = clock.now_ns()
    # The wall clock is read once, as an identity: it grows from one start of the process to the next.
    life = BalancerLife(settings.balancer_id, time.time_ns() // NS_PER_MS)

    def observe(event: FleetEvent) -> None:
        log.info("fleet", event_kind=event.kind, runtime_id=event.runtime_id, incarnation=event.incarnation, legs=event.legs)

    def watch_failed(runtime_id: str, status: str) -> None:
        log.warning("report watch ended", runtime_id=runtime_id, status=status)

    fleet = Fleet(life, settings.load_rule(), settings.membership_rule(), now_ns, observe)
    channels = RuntimeChannels()
    watch = ReportWatch(fleet, channels, clock, rng, settings.report_interval_ms, watch_failed)
    registry = RegistryService(fleet, watch, clock, settings.min_sdk_version)
    reservations = Reservations(fleet, channels, clock, settings.reserve_timeout_ms / 1000)
    releases = Releases(reservations, rng)
    options = settings.policy_options()
    router = Router(options.make(settings.policy), settings.report_max_age_ms * NS_PER_MS, overload=settings.overload_rule())
    metrics = BalancerMetrics(clock)
    decisions = DecisionLog(settings.decision_log_size)
    placer = Placer(fleet, router, reservations, releases, decisions, metrics, clock, rng, settings.waiting_rule())
    documents = Documents(fleet, placer, now_ns)
    controls = Controls(router, options, log)
    front = FrontServer(
        placer,
        lambda: documents.is_ready(clock.now_ns()),
        front_rule(settings),
        clock,
        rng,
        lambda: "sess_" + secrets.token_hex(16),
        log,
    )
    metrics.attach(fleet, placer, releases, front.statistics)
    sweep = FleetSweep(fleet, registry, channels, clock)
    return Balancer(clock, fleet, channels, registry, sweep, releases, placer, front, documents, controls, metrics)


def front_rule(settings: BalancerSettings) -> FrontRule:
    relay = RelayRule(
        max_frame_bytes=settings.max_frame_bytes,
        probe_after_ms=settings.probe_after_ms,
        dead_after_ms=settings.dead_after_ms,
        stalled_after_ms=settings.stalled_after_ms,
    )
    shortest = min(settings.probe_after_ms, settings.dead_after_ms, settings.stalled_after_ms, settings.head_timeout_ms)
    return FrontRule(
        relay=relay,
        head_timeout_ms=settings.head_timeout_ms,
        dial_timeout_ms=settings.dial_timeout_ms,
        max_connections=settings.max_connections,
        tend_interval_ms=max(20, min(1000, shortest // 4)),
    )
