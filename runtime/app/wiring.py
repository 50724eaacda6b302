"""The only place that knows the concrete parts of a runtime process and joins them."""

from __future__ import annotations

import asyncio
import secrets
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Final, Protocol

from structlog.typing import FilteringBoundLogger

from runtime.app.settings import RuntimeSettings
from runtime.conversation.calls import Calls
from runtime.conversation.ports import ConversationLimits
from runtime.dialogue.agent import Agent
from runtime.engines.load import EngineKind, EngineSettings, load_engines
from runtime.engines.loaded import LoadedEngines
from runtime.engines.synthetic_cost import SyntheticCost
from runtime.load.allowed_cores import allowed_cores
from runtime.load.cpu_meter import CpuMeter
from runtime.load.load_meter import LoadMeter, RuntimeFacts
from runtime.load.process_facts import affinity_cores, used_cpu_ns
from runtime.primitives.clock import NS_PER_S, Clock, MonotonicClock
from runtime.primitives.errors import SettingError
from runtime.primitives.ids import RuntimeId, as_id_stem, is_runtime_id
from runtime.primitives.load_snapshot import LoadSnapshot, RuntimeState
from runtime.session.admission import Admission, Suitability
from runtime.session.guard import OverloadGuard
from runtime.session.inflow import InflowBucket
from runtime.session.key_ring import KeyRing
from runtime.session.ledger import Ledger, LegEvent
from runtime.session.settlement import Settlements
from runtime.telemetry.metrics import RuntimeMetrics
from runtime.transport.place import DirectCallers, Places
from runtime.transport.resumable_link import ResumeRule
from runtime.transport.resume_desk import ResumeDesk
from runtime.transport.ticket_check import TicketCheck

__all__ = ["LegFanOut", "Parts", "engines_of", "load_agent", "wire"]

_DIRECT_LEASE_NS: Final = 2 * NS_PER_S
_BURST_FACTOR: Final = 4.0
"""A runtime may take in at most four times its fair share (requirement F5)."""
_ATTACH_GRACE_S: Final = 5.0
"""The conversation's own limit on the first message comes first; the lease is the backstop."""


class LegListener(Protocol):
    def leg_changed(self, event: LegEvent) -> None: ...


class LegFanOut:
    """Hands each leg event to whoever has joined; the ledger knows only this."""

    def __init__(self) -> None:
        self.listeners: list[LegListener] = []

    def leg_changed(self, event: LegEvent) -> None:
        for listener in self.listeners:
            listener.leg_changed(event)


@dataclass(frozen=True, slots=True)
class Parts:
    """The joined parts that the process serves."""

    settings: RuntimeSettings
    runtime_id: RuntimeId
    incarnation: int
    machine_id: str
    clock: Clock
    ledger: Ledger
    legs: LegFanOut
    admission: Admission
    meter: LoadMeter
    metrics: RuntimeMetrics
    calls: Calls
    places: Places
    ring: KeyRing
    desk: ResumeDesk

    def snapshot(self) -> LoadSnapshot:
        return self.meter.snapshot()

    def exposition(self) -> tuple[bytes, str]:
        return self.metrics.exposition(
            self.meter.snapshot(), self.calls.waiting_events, len(asyncio.all_tasks()), self.desk.away.total()
        )


def load_agent(name: str) -> Agent:
    """Imports and makes the agent that `module:Class` names. Raises SettingError."""
    module_name, _, class_name = name.partition(":")
    try:
        made = getattr(import_module(module_name), class_name)()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise SettingError("agent", name, f"module:Class of an importable agent made without arguments ({error})") from error
    for member in ("name", "tools", "reply"):
        if not hasattr(made, member):
            raise SettingError("agent", name, f"a class with name, tools and reply (it has no {member})")
    agent: Agent = made
    return agent


def engines_of(settings: RuntimeSettings) -> LoadedEngines:
    """Loads and warms the engines. Blocks for seconds: call it in a thread. Raises ModelUnavailable."""
    cost = SyntheticCost(
        speech_ms_per_s=settings.synthetic_speech_ms_per_s,
        silence_ms_per_s=settings.synthetic_silence_ms_per_s,
        reply_ms_per_s=settings.synthetic_reply_ms_per_s,
        startup_ms=settings.synthetic_startup_ms,
        jitter=settings.synthetic_jitter,
        seed=settings.synthetic_seed,
    )
    kind = EngineKind(settings.engines)
    return load_engines(EngineSettings(kind, settings.engine_threads, smart_turn=settings.smart_turn, synthetic=cost))


def wire(settings: RuntimeSettings, agent: Agent, engines: LoadedEngines, http_port: int, log: FilteringBoundLogger) -> Parts:
    """Joins everything; opens nothing."""
    clock = MonotonicClock()
    now_ns = clock.now_ns()
    incarnation = time.time_ns()  # an identity that grows over restarts; nothing is computed with it
    machine_id = settings.machine_id or socket.gethostname()
    runtime_id = settings.runtime_id or f"{as_id_stem(machine_id)}-{http_port}"
    if not is_runtime_id(runtime_id):
        raise SettingError("runtime_id", runtime_id, "1-64 characters of a-z 0-9 and hyphens, the first no hyphen")
    agents: Mapping[str, Agent] = {agent.name: agent}

    legs = LegFanOut()
    ledger = Ledger(legs, lambda: secrets.token_urlsafe(24), int((settings.first_message_s + _ATTACH_GRACE_S) * NS_PER_S))
    settlements = Settlements()
    suitability = Suitability(frozenset(agents), frozenset(settings.abilities))
    admission = Admission(
        ledger,
        settlements,
        InflowBucket(settings.inflow_depth, settings.inflow_floor_per_s, _BURST_FACTOR, now_ns, settings.inflow_ramp_s),
        OverloadGuard(settings.guard_utilisation, settings.guard_lag_ms),
        suitability,
        hard_limit=settings.hard_limit,
        emergency_limit=settings.adoption_limit,
    )
    allowed = allowed_cores(affinity_cores(), settings.cores)
    cores = allowed.cores * settings.cpu_share
    log.info("cores", allowed=allowed.cores, source=allowed.source, share=settings.cpu_share, own=round(cores, 3))
    facts = RuntimeFacts(
        RuntimeId(runtime_id),
        incarnation,
        settings.hard_limit,
        suitability.agents,
        suitability.abilities,
        settings.region,
        settings.version,
        settings.cost_class,
    )
    cpu = CpuMeter(used_cpu_ns, cores, float(affinity_cores()))
    state = _State()
    meter = LoadMeter(facts, ledger, settlements, cpu, clock, state, engines.waiting)
    metrics = RuntimeMetrics(meter.session_started, meter.audio_was_late)
    calls = Calls(
        facts.runtime_id,
        ledger,
        admission,
        agents,
        agent.name,
        engines,
        _limits(settings),
        clock,
        metrics,
        meter.saturation,
        log,
    )
    state.calls = calls
    direct = DirectCallers(settings.allow_direct, _DIRECT_LEASE_NS)
    ring = KeyRing(settings.keys())
    tickets = TicketCheck(ring, ledger, facts.runtime_id, incarnation, clock)
    places = Places(calls, tickets, direct, lambda: f"sess_{secrets.token_hex(8)}")
    rule = ResumeRule(settings.resume_grace_s, settings.slow_caller_s, settings.resume_most_bytes)
    desk = ResumeDesk(calls, facts.runtime_id, incarnation, rule, settings.resume_most_away, metrics, log)
    return Parts(
        settings,
        facts.runtime_id,
        incarnation,
        machine_id,
        clock,
        ledger,
        legs,
        admission,
        meter,
        metrics,
        calls,
        places,
        ring,
        desk,
    )


class _State:
    """The meter reads the state that the calls hold, and the calls need the meter first."""

    calls: Calls | None = None

    def __call__(self) -> RuntimeState:
        return RuntimeState.STARTING if self.calls is None else self.calls.state


def _limits(settings: RuntimeSettings) -> ConversationLimits:
    return ConversationLimits(
        first_message_s=settings.first_message_s,
        idle_s=settings.idle_s,
        maximum_s=settings.maximum_s,
        slow_caller_s=settings.slow_caller_s,
        lead_ms=settings.lead_ms,
    )
