"""Who belongs to the fleet and who may be given new sessions. Eligibility is the AND of all sources, never the latest of them.

    source                     against the runtime when                            back when
    enrol stream               it broke without goodbye                            it enrolls again
    heartbeat                  silent for longer than suspect_after (awake time)   it is heard again
    the runtime's own state    not ready (checked by the router's filter)          it says ready

Times: `now_ns` is the receiver's monotonic clock. Silence is in awake time (awake_clock.py), so our own lateness is ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from balancer.fleet.awake_clock import AwakeClock
from balancer.fleet.registration import Registration
from runtime.primitives.clock import NS_PER_MS, NS_PER_S
from runtime.primitives.load_snapshot import RuntimeState

__all__ = ["Change", "ChangeKind", "EnrollOutcome", "Member", "Membership", "MembershipRule"]


@dataclass(frozen=True, slots=True)
class MembershipRule:
    """Raises ValueError, with the numbers, when the lease could expire in ordinary silence."""

    heartbeat_interval_ms: int = 1000
    heartbeat_misses: int = 3
    suspect_after_ms: int = 2500
    lease_ttl_ms: int = 10_000
    lost_grace_ms: int = 1000
    sweep_interval_ms: int = 100

    def __post_init__(self) -> None:
        least = 2 * self.heartbeat_interval_ms * self.heartbeat_misses
        if self.lease_ttl_ms <= least:
            raise ValueError(
                f"lease_ttl_ms is {self.lease_ttl_ms}; allowed: above 2 x heartbeat_interval_ms x heartbeat_misses = "
                f"2 x {self.heartbeat_interval_ms} x {self.heartbeat_misses} = {least}"
            )
        if not self.heartbeat_interval_ms < self.suspect_after_ms < self.lease_ttl_ms:
            raise ValueError(
                f"suspect_after_ms is {self.suspect_after_ms}; allowed: above heartbeat_interval_ms = "
                f"{self.heartbeat_interval_ms} and below lease_ttl_ms = {self.lease_ttl_ms}"
            )


@dataclass(slots=True)
class Member:
    """One runtime life."""

    facts: Registration
    state: RuntimeState
    heard_awake_ns: int
    enrolled_ns: int
    lost_stream_awake_ns: int | None = None
    is_silent: bool = False
    legs_are_lost: bool = False

    @property
    def ineligible(self) -> str:
        """Why it gets nothing whatever it reports; empty: nothing against it."""
        reasons = []
        if self.lost_stream_awake_ns is not None:
            reasons.append("its enrol stream broke")
        if self.is_silent:
            reasons.append("silent for longer than suspect_after_ms")
        return "; ".join(reasons)


class EnrollOutcome(StrEnum):
    ADDED = "added"
    RETURNED = "returned"
    """The same life again, after its stream broke or beside a stream that is dead and does not know it."""
    REPLACED = "replaced"
    """A newer life of the same runtime id."""
    OLDER = "older"
    """Refused: a newer life is enrolled."""


class ChangeKind(StrEnum):
    SUSPECTED = "suspected"
    HEARD_AGAIN = "heard_again"
    LEGS_LOST = "legs_lost"
    """The grace after a broken stream is over."""
    FORGOTTEN = "forgotten"
    """The lease is over: the member is gone, its legs are lost if they were not yet."""


@dataclass(frozen=True, slots=True)
class Change:
    kind: ChangeKind
    member: Member


class Membership:
    """The table of members by runtime id: one life each, the newest."""

    def __init__(self, rule: MembershipRule, now_ns: int) -> None:
        self.rule = rule
        self.awake = AwakeClock(now_ns, 2 * rule.sweep_interval_ms * NS_PER_MS)
        self._members: dict[str, Member] = {}

    def __len__(self) -> int:
        return len(self._members)

    def get(self, runtime_id: str) -> Member | None:
        return self._members.get(runtime_id)

    def members(self) -> tuple[Member, ...]:
        return tuple(self._members.values())

    def enroll(self, facts: Registration, now_ns: int) -> tuple[EnrollOutcome, Member | None]:
        """The outcome and the member that was there before."""
        before = self._members.get(facts.runtime_id)
        if before is not None and before.facts.incarnation > facts.incarnation:
            return EnrollOutcome.OLDER, before
        self._members[facts.runtime_id] = Member(facts, facts.state, self.awake.at(now_ns), now_ns)
        if before is None:
            return EnrollOutcome.ADDED, None
        same = before.facts.incarnation == facts.incarnation
        return (EnrollOutcome.RETURNED if same else EnrollOutcome.REPLACED), before

    def heard(self, member: Member, now_ns: int) -> bool:
        """Any message on the enrol stream. True: the member was silent and is not any more."""
        member.heard_awake_ns = self.awake.at(now_ns)
        was_silent, member.is_silent = member.is_silent, False
        return was_silent

    def stream_lost(self, member: Member, now_ns: int) -> None:
        if member.lost_stream_awake_ns is None:
            member.lost_stream_awake_ns = self.awake.at(now_ns)

    def remove(self, member: Member) -> None:
        """Only this very life; a newer one under the same id stays."""
        if self._members.get(member.facts.runtime_id) is member:
            del self._members[member.facts.runtime_id]

    def sweep(self, now_ns: int) -> list[Change]:
        """What time alone has changed. O(members); call every `sweep_interval_ms`."""
        awake_ns = self.awake.tick(now_ns)
        rule = self.rule
        changes: list[Change] = []
        for member in self.members():
            silence_ns = awake_ns - member.heard_awake_ns
            if silence_ns > rule.lease_ttl_ms * NS_PER_MS:
                self.remove(member)
                changes.append(Change(ChangeKind.FORGOTTEN, member))
                continue
            if not member.is_silent and silence_ns > rule.suspect_after_ms * NS_PER_MS:
                member.is_silent = True
                changes.append(Change(ChangeKind.SUSPECTED, member))
            lost_ns = member.lost_stream_awake_ns
            if lost_ns is not None and not member.legs_are_lost and awake_ns - lost_ns >= rule.lost_grace_ms * NS_PER_MS:
                member.legs_are_lost = True
                changes.append(Change(ChangeKind.LEGS_LOST, member))
        return changes

    def silence_s(self, member: Member, now_ns: int) -> float:
        return (self.awake.at(now_ns) - member.heard_awake_ns) / NS_PER_S
