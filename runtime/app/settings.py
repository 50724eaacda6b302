"""All settings of a runtime process. Built once, from file < environment < flags."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from runtime.primitives.errors import SettingError
from runtime.primitives.ids import is_machine_id, is_runtime_id
from runtime.primitives.load_snapshot import CostClass
from runtime.primitives.settings import setting
from runtime.session.shared_layout import MOST_SLOTS
from runtime.wire.signed_tickets import TicketKey, read_keys

__all__ = ["ENVIRONMENT_PREFIX", "RuntimeSettings"]

ENVIRONMENT_PREFIX = "SWITCHBOARD_RUNTIME"
_LEAST_SILENCE_S: Final = 3.0
"""Three beats of a worker."""
_VERSION: Final = re.compile(r"\d+(\.\d+)*")


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    runtime_id: str = setting("", "unique name in the fleet, a-z 0-9 and hyphens; empty: made from host and port")
    machine_id: str = setting("", "groups the runtimes of a machine; empty: the host's name")
    balancers: tuple[str, ...] = setting((), "control addresses (host:port) of the balancers to join; none: stand alone")
    http_host: str = setting(
        "127.0.0.1", "where WebSocket, health and metrics listen; loopback keeps strangers out", not_empty=True
    )
    http_port: int = setting(0, "0: the system chooses", at_least=0, at_most=65535)
    grpc_host: str = setting("127.0.0.1", "where voice, placement and load reports listen over gRPC", not_empty=True)
    grpc_port: int = setting(0, "0: the system chooses", at_least=0, at_most=65535)
    agent_check_port: int = setting(
        -1, "where HAProxy's agent-check is answered; 0: the system chooses, -1: off", at_least=-1, at_most=65535
    )
    orca_minimum_s: float = setting(
        30.0, "shortest interval of ORCA reports, whatever a client asks; 30 as other servers do", unit="s", at_least=0.05
    )
    advertise_host: str = setting("", "the host that balancers and callers dial; empty: the listening hosts")
    region: str = setting("", "where this runtime is")
    abilities: tuple[str, ...] = setting((), "what it can do besides talk, as tags")
    version: str = setting("0.1.0", "version of the deployed agent, dotted integers")
    cost_class: CostClass = setting(CostClass.OWNED, "what it costs")
    agent: str = setting(
        "runtime.engines.front_desk:FrontDesk", "the agent's class as module:Class, made without arguments", not_empty=True
    )
    engines: str = setting("models", "real models, or synthetic ones for load tests", one_of=("models", "synthetic"))
    engine_threads: int = setting(
        2, "recognitions and syntheses at once; more than cores only makes all wait", at_least=1, at_most=64
    )
    smart_turn: str = setting("", "file of the smart-turn end-of-turn classifier, from `make smart-turn`; empty: without it")
    synthetic_speech_ms_per_s: float = setting(
        0.0, "CPU that synthetic engines burn for a second of a caller's utterance", unit="ms/s", at_least=0.0, at_most=10_000.0
    )
    synthetic_silence_ms_per_s: float = setting(
        0.0, "the same for a second of listening, whether anybody speaks or not", unit="ms/s", at_least=0.0, at_most=10_000.0
    )
    synthetic_reply_ms_per_s: float = setting(
        0.0, "the same for a second of the agent's speech", unit="ms/s", at_least=0.0, at_most=10_000.0
    )
    synthetic_startup_ms: float = setting(0.0, "the same for the start of a session", unit="ms", at_least=0.0, at_most=10_000.0)
    synthetic_jitter: float = setting(
        0.0, "synthetic costs are drawn evenly from 1 - jitter to 1 + jitter times their value", at_least=0.0, at_most=1.0
    )
    synthetic_seed: int = setting(0, "of that jitter", at_least=0, at_most=2**32 - 1)
    hard_limit: int = setting(32, "sessions at most; about what two cores hold with real models", at_least=1, at_most=100_000)
    emergency_limit: int = setting(
        0,
        "sessions at most when calls move in from a lost runtime; 0: a quarter above hard_limit",
        at_least=0,
        at_most=MOST_SLOTS,
    )
    cpu_share: float = setting(
        1.0, "this runtime's share of the allowed cores (1/3 for three on a machine)", above=0.0, at_most=1.0
    )
    cores: float = setting(0.0, "cores this machine gives us; 0: from cgroup, cpuset and affinity", at_least=0.0)
    inflow_depth: int = setting(16, "new sessions at once, before the fair rate holds", at_least=4, at_most=1_000_000)
    inflow_floor_per_s: float = setting(0.5, "lowest rate of new sessions", unit="1/s", above=0.0)
    inflow_ramp_s: float = setting(
        60.0,
        "a new runtime takes 4 sessions at once and two to three times its fair share for so long; 0: no ramp",
        unit="s",
        at_least=0.0,
        at_most=3600.0,
    )
    guard_utilisation: float = setting(
        1.2,
        "fast utilisation above which nothing new is admitted; a call's burst of recognition may fill its share for a moment",
        above=0.0,
    )
    guard_lag_ms: float = setting(250.0, "event-loop lag above which nothing new is admitted", unit="ms", above=0.0)
    ticket_keys: tuple[str, ...] = setting(
        (),
        "ID:SECRET, any of which may seal a ticket; none: those of the balancers. Not by flag: ps shows it",
    )
    allow_direct: str = setting("loopback", "who may connect without a ticket", one_of=("loopback", "everywhere", "nowhere"))
    first_message_s: float = setting(10.0, "how long an attached caller may stay silent", unit="s", above=0.0, at_most=600.0)
    idle_s: float = setting(120.0, "longest time without a message of the caller", unit="s", above=0.0)
    maximum_s: float = setting(1200.0, "longest session", unit="s", above=0.0)
    resume_grace_s: float = setting(
        30.0, "how long a session waits for a client of our own that lost its connection; 0: not at all", unit="s",
        at_least=0.0, at_most=600.0,
    )  # fmt: skip
    resume_most_bytes: int = setting(
        1_048_576, "messages that such a client has not acknowledged; beyond it counts as slow", unit="bytes",
        at_least=65_536, at_most=2**30,
    )  # fmt: skip
    resume_most_away: int = setting(
        256, "sessions of one tenant that may wait for their clients; one more ends at once", at_least=1, at_most=100_000
    )
    slow_caller_s: float = setting(10.0, "longest time an event may wait for the caller to read", unit="s", above=0.0)
    lead_ms: int = setting(
        200,
        "how far audio is sent ahead of play-out: rides out gaps, bounds what a barge-in must take back",
        unit="ms",
        at_least=20,
        at_most=5000,
    )
    twilio_auth_token: str = setting(
        "",
        "the account's secret: with it, only streams that Twilio has signed are taken; give it by environment, flags show in ps",
    )
    twilio_idle_timeout_ms: int = setting(
        10_000,
        "silence of both sides after which the agent speaks to a telephone caller who says nothing; 0: never; else 1000 and up",
        unit="ms",
        at_least=0,
        at_most=600_000,
    )
    twilio_greets: bool = setting(
        False, "the agent speaks as soon as a telephone call is there, as whoever picks up does; else the caller begins"
    )
    ping_interval_s: float = setting(
        20.0, "how often a silent peer is probed, and how long its answer may take", unit="s", above=0.0
    )
    drain_timeout_s: float = setting(30.0, "how long calls may go on after SIGTERM; 0: end them at once", unit="s", at_least=0.0)
    workers: int = setting(
        1, "runtimes on this machine under one supervisor, each a registry entry of its own", at_least=1, at_most=256
    )
    worker_start_s: float = setting(
        120.0, "how long a worker may take to become ready; a supervisor kills it then", unit="s", above=0.0, at_most=3600.0
    )
    worker_silence_s: float = setting(
        30.0,
        "how long a worker's event loop may stand still before the supervisor kills and restarts it; 0: for ever, else from 3",
        unit="s",
        at_least=0.0,
        at_most=3600.0,
    )
    shared_memory: str = setting("", "file of the machine's shared counters; empty: made from machine_id, with workers only")
    shard: int = setting(-1, "this worker's part of the shared counters; given by the supervisor", at_least=-1, at_most=255)
    report_fd: int = setting(
        -1, "where this worker says that it is ready and lives; given by the supervisor", at_least=-1, at_most=2**20
    )
    leave_with_stdin: bool = setting(False, "leave when standard input ends: with whoever started this process, however it ended")
    log_level: str = setting("info", "lowest level that is written", one_of=("debug", "info", "warning", "error"))

    def __post_init__(self) -> None:
        if self.emergency_limit and self.emergency_limit < self.hard_limit:
            raise SettingError("emergency_limit", self.emergency_limit, f"0, or at least hard_limit ({self.hard_limit})")
        if 0 < self.twilio_idle_timeout_ms < 1_000:
            raise SettingError("twilio_idle_timeout_ms", self.twilio_idle_timeout_ms, "0, or 1000 to 600000 ms")
        if not _VERSION.fullmatch(self.version):
            raise SettingError("version", self.version, "dotted whole numbers, for example 1.4.2")
        for address in self.balancers:
            host, _, port = address.rpartition(":")
            if not host or not port.isdecimal() or not 1 <= int(port) <= 65535:
                raise SettingError("balancers", address, "host:port with a port from 1 to 65535, comma separated")
        self.keys()
        self._check_names()
        self._check_workers()

    def keys(self) -> tuple[TicketKey, ...]:
        try:
            return read_keys(self.ticket_keys)
        except ValueError as error:
            raise SettingError("ticket_keys", "not shown", str(error)) from None

    def _check_names(self) -> None:
        if self.machine_id and not is_machine_id(self.machine_id):
            raise SettingError("machine_id", self.machine_id, "1-64 characters of A-Z a-z 0-9 . _ and hyphens, the first no sign")
        number = f"-{self.workers}" if self.workers > 1 else ""
        if self.runtime_id and not is_runtime_id(self.runtime_id + number):
            allowed = f"1-{64 - len(number)} characters of a-z 0-9 and hyphens, the first no hyphen"
            raise SettingError("runtime_id", self.runtime_id, allowed)

    def _check_workers(self) -> None:
        if self.shard >= 0 and (self.workers > 1 or not self.shared_memory):
            raise SettingError("shard", self.shard, "-1; a supervisor gives its workers their own")
        if self.report_fd >= 0 and self.shard < 0:
            raise SettingError("report_fd", self.report_fd, "-1; a supervisor gives its workers their own")
        if 0 < self.worker_silence_s < _LEAST_SILENCE_S:
            raise SettingError("worker_silence_s", self.worker_silence_s, f"0, or {_LEAST_SILENCE_S:g} to 3600")
        taken: dict[tuple[str, int], str] = {}
        listeners = (("http_port", self.http_host), ("grpc_port", self.grpc_host), ("agent_check_port", self.http_host))
        for name, host in listeners if self.workers > 1 else ():
            first: int = getattr(self, name)
            for port in range(first, first + self.workers) if first > 0 else ():
                if port > 65535:
                    raise SettingError(name, first, f"0 to {65536 - self.workers}: {self.workers} workers count up from it")
                other = taken.setdefault((host, port), name)
                if other != name:
                    raise SettingError(name, first, f"ports apart from those of {other}; {self.workers} workers count up")

    @property
    def adoption_limit(self) -> int:
        return self.emergency_limit or self.hard_limit + max(1, self.hard_limit // 4)
