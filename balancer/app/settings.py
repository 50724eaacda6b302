"""Every setting of the balancer: default, unit, allowed range and why. File < environment (SWITCHBOARD_BALANCER_*) < flags."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass

from balancer.capacity.effective_capacity import CapacityRule
from balancer.fleet.membership import MembershipRule
from balancer.fleet.registration import parse_address
from balancer.placement.waiting import WaitingRule
from balancer.routing.cost import CostRule
from balancer.routing.load_rule import LoadRule
from balancer.routing.overload import OverloadRule
from balancer.routing.policies import POLICIES
from balancer.routing.policies.weighted_remaining import Remaining
from balancer.routing.policy_options import PolicyOptions
from balancer.routing.version import parse_version
from runtime.primitives.errors import SettingError
from runtime.primitives.ids import is_session_id
from runtime.primitives.settings import setting
from runtime.wire.signed_tickets import TicketKey, read_keys

__all__ = ["BalancerSettings"]


@dataclass(frozen=True, slots=True)
class BalancerSettings:
    """Raises SettingError for combinations that cannot work, with the numbers."""

    balancer_id: str = setting("balancer-1", "name of this balancer, unique among those of one fleet", not_empty=True)
    role: str = setting(
        "both",
        "control: places calls, keeps the fleet; relay: one of the processes that hold the callers of a control; both: in one",
        one_of=("both", "control", "relay"),
    )
    control_address: str = setting("", "host:port of the control (its control_port), for the role relay")
    relay_id: str = setting("", "name of this relay for operators; empty: made of host and process id")
    policy: str = setting("session_aware", "how a runtime is chosen among those with room", one_of=tuple(POLICIES))

    hash_virtual_nodes: int = setting(
        200, "points of each runtime on the ring of consistent_hash; 1000 and 5000 share more evenly", at_least=1, at_most=100_000
    )
    weight_cpu: float = setting(0.2, "of free CPU in weighted_remaining; the four sum to 1", at_least=0.0, at_most=1.0)
    weight_gpu_memory: float = setting(0.5, "of free GPU memory there", at_least=0.0, at_most=1.0)
    weight_queue: float = setting(0.2, "of a short queue there", at_least=0.0, at_most=1.0)
    weight_kv_cache: float = setting(0.1, "of free KV cache there", at_least=0.0, at_most=1.0)

    public_host: str = setting(
        "127.0.0.1", "where callers connect (HTTP and WebSocket); loopback unless you say so", not_empty=True
    )
    public_port: int = setting(8080, "callers' port; 0: chosen by the system", at_least=0, at_most=65535)
    public_grpc_port: int = setting(
        -1, "where gRPC callers call or ask for assignments; -1: public_port + 3, chosen by the system where that is; 0: chosen",
        at_least=-1, at_most=65535,
    )  # fmt: skip
    public_tls_certificate: str = setting("", "PEM file with the certificate chain of both public ports; empty: no TLS there")
    public_tls_key: str = setting("", "PEM file with its key; both are looked at again every 10 s")
    operator_host: str = setting("127.0.0.1", "dashboard, fleet and metrics; unauthenticated, so loopback", not_empty=True)
    operator_port: int = setting(8081, "operators' port; 0: chosen by the system", at_least=0, at_most=65535)
    control_host: str = setting("127.0.0.1", "where runtimes enroll (gRPC); unauthenticated, so loopback", not_empty=True)
    control_port: int = setting(8082, "runtimes' port; 0: chosen by the system", at_least=0, at_most=65535)

    target_utilisation: float = setting(0.8, "T: utilisation to fill a runtime to", unit="share", above=0.0, at_most=1.0)
    window_s: float = setting(10.0, "W: averaging window of the session rate", unit="s", above=0.0, at_most=3600.0)
    scaler: float = setting(2.0, "S: how cautiously estimated headroom is used", at_least=1.0, at_most=100.0)
    cold_allowance: int = setting(
        4, "effective capacity of a runtime without sessions", unit="sessions", at_least=0, at_most=100_000
    )

    learns_capacity: bool = setting(True, "capacity from what reports show of CPU against sessions; else R1's formula alone")
    mean_life_s: float = setting(
        180.0, "usual length of a call, until ends tell better", unit="s", at_least=1.0, at_most=86_400.0
    )
    talk_margin: float = setting(1.0, "standard deviations of talk that the target leaves room for", at_least=0.0, at_most=6.0)
    cost_owned: float = setting(1.0, "price of an owned runtime's capacity", at_least=0.01, at_most=100.0)
    cost_on_demand: float = setting(
        2.0, "the same on demand; a dearer one is filled less, while there is room", at_least=0.01, at_most=100.0
    )
    cost_spot: float = setting(0.5, "the same of a spot machine", at_least=0.01, at_most=100.0)
    overload_low: float = setting(
        0.80, "load of the fleet from which low priority is refused", unit="share", above=0.0, at_most=2.0
    )
    overload_normal: float = setting(0.95, "the same for normal priority", unit="share", above=0.0, at_most=2.0)
    overload_high: float = setting(1.0, "the same for high priority", unit="share", above=0.0, at_most=2.0)

    report_interval_ms: int = setting(1000, "wanted interval of load reports", unit="ms", at_least=100, at_most=60_000)
    report_max_age_ms: int = setting(
        10_000, "an older report is not decided on; its word fades from three report intervals to ten", unit="ms",
        at_least=200, at_most=600_000,
    )  # fmt: skip
    heartbeat_interval_ms: int = setting(1000, "what runtimes are told to beat at", unit="ms", at_least=50, at_most=60_000)
    heartbeat_misses: int = setting(3, "beats that may be missed within half a lease", at_least=1, at_most=100)
    suspect_after_ms: int = setting(
        2500,
        "silence after which a runtime gets nothing new; 2.5 beats, seen within 3 s",
        unit="ms",
        at_least=100,
        at_most=600_000,
    )
    lease_ttl_ms: int = setting(
        10_000,
        "silence after which a runtime is forgotten; above 2 x heartbeat x misses",
        unit="ms",
        at_least=200,
        at_most=3_600_000,
    )
    lost_grace_ms: int = setting(
        1000, "time a runtime has to enroll again before its legs are lost", unit="ms", at_least=0, at_most=60_000
    )
    leave_with_stdin: bool = setting(False, "leave when standard input ends: with whoever started this process, however it ended")
    sweep_interval_ms: int = setting(100, "how often silence is looked at", unit="ms", at_least=10, at_most=1000)
    min_sdk_version: str = setting("0.1.0", "older runtimes are refused at enrolment", not_empty=True)

    ticket_keys: tuple[str, ...] = setting(
        (),
        "ID:SECRET, the first that a runtime knows seals its tickets; none: one is made and told. Not by flag: ps shows it",
    )
    reserve_timeout_ms: int = setting(250, "how long a runtime may take to admit", unit="ms", at_least=5, at_most=10_000)
    waiting_places: int = setting(
        0, "callers who may wait for a place; 0: who finds none is refused at once", at_least=0, at_most=100_000
    )
    waiting_timeout_s: float = setting(10.0, "how long a caller waits at most", unit="s", above=0.0, at_most=3600.0)
    decision_log_size: int = setting(1000, "placements kept with their reasons", at_least=1, at_most=1_000_000)

    journal_file: str = setting("", "where every input of the routing is written for `switchboard sim --replay`; empty: nowhere")
    journal_most_bytes: int = setting(
        67_108_864, "size of that file and of the one before it together", unit="bytes", at_least=65_536, at_most=2**40
    )

    dial_timeout_ms: int = setting(
        2000, "TCP connect and upgrade at the runtime; a ticket lives 2 s", unit="ms", at_least=50, at_most=30_000
    )
    head_timeout_ms: int = setting(
        5000,
        "a caller's whole request must have come by then, and a telephone's start so long after its upgrade",
        unit="ms",
        at_least=100,
        at_most=60_000,
    )
    max_frame_bytes: int = setting(
        1_048_576, "largest WebSocket frame either way", unit="bytes", at_least=1024, at_most=16_777_216
    )
    probe_after_ms: int = setting(20_000, "silence after which the relay pings a peer", unit="ms", at_least=100, at_most=600_000)
    dead_after_ms: int = setting(
        20_000, "silence after that ping at which the peer is dead", unit="ms", at_least=100, at_most=600_000
    )
    stalled_after_ms: int = setting(
        10_000, "a caller that does not read for so long is cut off", unit="ms", at_least=100, at_most=600_000
    )
    runtime_probe_after_ms: int = setting(
        1000, "silence after which the relay pings the runtime of a call that could move", unit="ms", at_least=50, at_most=60_000
    )
    runtime_suspect_after_ms: int = setting(
        2000, "silence after which a runtime is looked for that takes the call over", unit="ms", at_least=100, at_most=60_000
    )
    resume_grace_s: float = setting(
        30.0, "how long a relayed call waits for a caller with a resume_key that has lost its connection; 0: not at all",
        unit="s", at_least=0.0, at_most=3600.0,
    )  # fmt: skip
    resume_most_away: int = setting(200, "calls of one tenant that may wait so at a time", at_least=0, at_most=100_000)
    replay_most_bytes: int = setting(
        3_145_728, "a caller's messages that are kept for another runtime; 30 s of 24 kHz PCM are 2.2 MB", unit="bytes",
        at_least=65_536, at_most=2**30,
    )  # fmt: skip
    move_timeout_ms: int = setting(
        5000, "a planned move of a call may take so long; else it stays", unit="ms", at_least=100, at_most=60_000
    )
    adopt_timeout_ms: int = setting(
        10_000, "how long a runtime is looked for when a call has lost its own", unit="ms", at_least=100, at_most=60_000
    )
    max_connections: int = setting(
        10_000, "callers' connections at a time; more are refused with 503", at_least=1, at_most=1_000_000
    )
    drain_timeout_s: float = setting(30.0, "on SIGTERM: time that calls have to finish", unit="s", at_least=0.0, at_most=86_400.0)
    log_level: str = setting("info", "least severe log line", one_of=("debug", "info", "warning", "error"))

    def __post_init__(self) -> None:
        self.keys()
        self._check_role()
        try:
            self.capacity_rule()
            self.membership_rule()
        except ValueError as error:
            name, _, rest = str(error).partition(" is ")
            value, _, allowed = rest.partition("; allowed: ")
            raise SettingError(name, value, allowed) from None
        if bool(self.public_tls_certificate) is not bool(self.public_tls_key):
            shown = f"{self.public_tls_certificate!r}, {self.public_tls_key!r}"
            raise SettingError("public_tls_certificate, public_tls_key", shown, "both or neither")
        if self.report_max_age_ms < 2 * self.report_interval_ms:
            raise SettingError(
                "report_max_age_ms", self.report_max_age_ms, f"at least 2 x report_interval_ms = {2 * self.report_interval_ms}"
            )
        if not self.overload_low <= self.overload_normal <= self.overload_high:
            shown = f"{self.overload_low}, {self.overload_normal}, {self.overload_high}"
            raise SettingError("overload_low, overload_normal, overload_high", shown, "in this order, none below the one before")
        if self.runtime_suspect_after_ms <= self.runtime_probe_after_ms:
            allowed = f"above runtime_probe_after_ms = {self.runtime_probe_after_ms}"
            raise SettingError("runtime_suspect_after_ms", self.runtime_suspect_after_ms, allowed)
        weights = (self.weight_cpu, self.weight_gpu_memory, self.weight_queue, self.weight_kv_cache)
        if abs(sum(weights) - 1.0) > 1e-6:
            shown = f"{' + '.join(f'{each:g}' for each in weights)} = {sum(weights):g}"
            raise SettingError("weight_cpu + weight_gpu_memory + weight_queue + weight_kv_cache", shown, "sum 1")
        if self.grpc_port > 65535:
            raise SettingError("public_grpc_port", self.public_grpc_port, "0 to 65535; public_port + 3 is beyond")
        if parse_version(self.min_sdk_version) is None:
            raise SettingError("min_sdk_version", self.min_sdk_version, "dotted integers")

    def _check_role(self) -> None:
        if self.role == "relay" and parse_address(self.control_address) is None:
            raise SettingError("control_address", self.control_address, "host:port of a control, in the role relay")
        if self.role != "relay" and self.control_address:
            raise SettingError("control_address", self.control_address, f"nothing, in the role {self.role}")
        if self.relay_id and (len(self.relay_id) > 64 or not is_session_id(self.relay_id)):
            raise SettingError("relay_id", self.relay_id[:80], "at most 64 characters of [A-Za-z0-9_.:-]")

    def keys(self) -> tuple[TicketKey, ...]:
        try:
            return read_keys(self.ticket_keys)
        except ValueError as error:
            raise SettingError("ticket_keys", "not shown", str(error)) from None

    @property
    def grpc_port(self) -> int:
        """What `public_grpc_port` comes to."""
        if self.public_grpc_port >= 0:
            return self.public_grpc_port
        return self.public_port + 3 if self.public_port else 0

    def capacity_rule(self) -> CapacityRule:
        return CapacityRule(self.target_utilisation, self.window_s, self.scaler, self.cold_allowance)

    def load_rule(self) -> LoadRule:
        return LoadRule(
            capacity=self.capacity_rule(),
            cost=CostRule(self.cost_owned, self.cost_on_demand, self.cost_spot),
            report_interval_s=self.report_interval_ms / 1000,
            mean_life_s=self.mean_life_s,
            z=self.talk_margin,
            learns_capacity=self.learns_capacity,
        )

    def policy_options(self) -> PolicyOptions:
        weights = Remaining(self.weight_cpu, self.weight_gpu_memory, self.weight_queue, self.weight_kv_cache)
        return PolicyOptions(self.hash_virtual_nodes, weights)

    def routing_hash(self) -> str:
        """Equal where all settings are, but for where a journal is written and what tickets are sealed with."""
        values = {name: value for name, value in dataclasses.asdict(self).items() if not name.startswith(("journal_", "ticket_"))}
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()

    def waiting_rule(self) -> WaitingRule:
        return WaitingRule(self.waiting_places, self.waiting_timeout_s)

    def overload_rule(self) -> OverloadRule:
        return OverloadRule(self.overload_low, self.overload_normal, self.overload_high)

    def membership_rule(self) -> MembershipRule:
        return MembershipRule(
            heartbeat_interval_ms=self.heartbeat_interval_ms,
            heartbeat_misses=self.heartbeat_misses,
            suspect_after_ms=self.suspect_after_ms,
            lease_ttl_ms=self.lease_ttl_ms,
            lost_grace_ms=self.lost_grace_ms,
            sweep_interval_ms=self.sweep_interval_ms,
        )
