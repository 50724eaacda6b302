"""The only place that knows which concrete things the balancer is made of."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from balancer.app.front_settings import front_rule
from balancer.app.settings import BalancerSettings
from balancer.dashboard.controls import Controls
from balancer.dashboard.documents import Documents
from balancer.fleet.channels import RuntimeChannels
from balancer.fleet.fleet import BalancerLife, Fleet, FleetEvent
from balancer.fleet.fleet_sweep import FleetSweep
from balancer.fleet.membership import ChangeKind
from balancer.fleet.registry_service import RegistryService
from balancer.fleet.report_watch import ReportWatch
from balancer.front.assignment_service import AssignmentService
from balancer.front.front_server import FrontServer
from balancer.front.grpc_door import GrpcDoor
from balancer.placement.placer import Placer
from balancer.placement.releases import Releases
from balancer.placement.reservation import Reservations
from balancer.placement.ticket_sealer import TicketSealer
from balancer.relays.control_service import RelayControlService
from balancer.routing.checkpoint import capture
from balancer.routing.decision_log import DecisionLog
from balancer.routing.fleet_view import FleetView
from balancer.routing.journal import Header, RecordingRouter, RecordingView
from balancer.routing.router import Router
from balancer.telemetry.journal_file import JournalFile
from balancer.telemetry.metrics import BalancerMetrics, FrontNumbers
from runtime.primitives.clock import NS_PER_MS, MonotonicClock
from runtime.primitives.errors import SettingError
from runtime.primitives.load_snapshot import RuntimeState
from runtime.primitives.rng import SeededRng
from runtime.wire.signed_tickets import TicketKey

__all__ = ["Balancer", "new_nonce", "new_session_id", "wire"]

_TRIES: Final = 3
"""Candidates of a decision."""


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
    """Made in the role `control` too, and not run: a front without callers says nothing."""
    relays: RelayControlService
    assignments: AssignmentService
    grpc_door: GrpcDoor
    documents: Documents
    controls: Controls
    metrics: BalancerMetrics
    journal: JournalFile | None


def wire(settings: BalancerSettings, log: structlog.typing.FilteringBoundLogger) -> Balancer:
    """Must be called inside the running event loop."""
    clock = MonotonicClock()
    rng = SeededRng()
    now_ns = clock.now_ns()
    # The wall clock is read once, as an identity: it grows from one start of the process to the next.
    life = BalancerLife(settings.balancer_id, time.time_ns() // NS_PER_MS)

    def observe(event: FleetEvent) -> None:
        log.info("fleet", event_kind=event.kind, runtime_id=event.runtime_id, incarnation=event.incarnation, legs=event.legs)
        if event.kind == ChangeKind.SUSPECTED.value:
            front.calls.suspect(event.runtime_id, event.incarnation)
            relays.suspect(event.runtime_id, event.incarnation)
        elif event.kind == f"state_{RuntimeState.DRAINING}":
            front.calls.tend_drains()
            relays.standing_changed()

    async def move(session_id: str, to: str) -> str:
        return front.calls.move(session_id, to) if session_id in front.calls else await relays.move(session_id, to)

    def moves() -> Mapping[tuple[str, str], float]:
        return Counter(front.calls.move_counts()) + Counter(relays.relays.move_counts())

    def is_ready() -> bool:
        return documents.is_ready(clock.now_ns())

    def watch_failed(runtime_id: str, status: str) -> None:
        log.warning("report watch ended", runtime_id=runtime_id, status=status)

    options = settings.policy_options()
    journal = open_journal(settings, log)
    view, router = make_routing(settings, journal)
    fleet = Fleet(life, settings.load_rule(), settings.membership_rule(), now_ns, observe, view)
    channels = RuntimeChannels()
    watch = ReportWatch(fleet, channels, clock, rng, settings.report_interval_ms, watch_failed)
    sealer = ticket_sealer(settings)
    registry = RegistryService(fleet, watch, clock, settings.min_sdk_version, sealer.told)
    reservations = Reservations(fleet, channels, clock, settings.reserve_timeout_ms / 1000, sealer)
    releases = Releases(reservations, rng)
    metrics = BalancerMetrics(clock)
    decisions = DecisionLog(settings.decision_log_size)
    placer = Placer(fleet, router, reservations, releases, decisions, metrics, clock, rng, settings.waiting_rule())
    documents = Documents(fleet, placer, now_ns, moves, lambda: relays.relays.documents(clock.now_ns()))
    front = FrontServer(placer, is_ready, front_rule(settings), clock, rng, new_session_id, log, metrics, fleet.is_leaving)
    relays = RelayControlService(placer, fleet, is_ready, clock, log)
    assignments = AssignmentService(placer, new_session_id, log)
    grpc_door = GrpcDoor(placer, front, settings.head_timeout_ms / 1000, new_session_id, new_nonce, log)
    controls = Controls(router, options, registry.ask_to_drain, lambda runtime_id: fleet.seat(runtime_id) is not None, move, log)
    own_front = None if settings.role == "control" else FrontNumbers(front.statistics, front.calls.move_counts)
    metrics.attach(fleet, placer, releases, own_front, journal, lambda: len(relays.relays.attached()))
    sweep = FleetSweep(fleet, registry, channels, clock)
    return Balancer(
        clock,
        fleet,
        channels,
        registry,
        sweep,
        releases,
        placer,
        front,
        relays,
        assignments,
        grpc_door,
        documents,
        controls,
        metrics,
        journal,
    )


def new_session_id() -> str:
    return "sess_" + secrets.token_hex(16)


def new_nonce() -> bytes:
    """Of an upgrade that we make ourselves (RFC 6455 section 4.1)."""
    return secrets.token_bytes(16)


def ticket_sealer(settings: BalancerSettings) -> TicketSealer:
    """With the operator's keys, or with one of this life that runtimes are told."""
    given = settings.keys()
    made = TicketKey(f"auto-{secrets.token_hex(4)}", secrets.token_bytes(32))
    return TicketSealer(given or (made,), are_told=not given)


def open_journal(settings: BalancerSettings, log: structlog.typing.FilteringBoundLogger) -> JournalFile | None:
    """None where none is wanted. Raises SettingError where the file cannot be made."""
    if not settings.journal_file:
        return None
    header = Header(
        settings=settings.routing_hash(),
        balancer=settings.balancer_id,
        policy=settings.policy,
        options=settings.policy_options(),
        rule=settings.load_rule(),
        overload=settings.overload_rule(),
        max_report_age_ns=settings.report_max_age_ms * NS_PER_MS,
        tries=_TRIES,
    )
    try:
        return JournalFile(Path(settings.journal_file), settings.journal_most_bytes, header, log)
    except OSError as error:
        raise SettingError("journal_file", settings.journal_file, f"a file that can be written ({error.strerror})") from None


def make_routing(settings: BalancerSettings, journal: JournalFile | None) -> tuple[FleetView, Router]:
    policy, age_ns = settings.policy_options().make(settings.policy), settings.report_max_age_ms * NS_PER_MS
    if journal is None:
        return FleetView(settings.load_rule()), Router(policy, age_ns, _TRIES, settings.overload_rule())
    view = RecordingView(settings.load_rule(), journal.note)
    router = RecordingRouter(policy, age_ns, _TRIES, settings.overload_rule(), journal.note)
    journal.capture = partial(capture, view, router)
    return view, router
