"""Membership: eligibility is the AND of all sources; time alone suspects, loses and forgets; our own lateness is ours."""

from __future__ import annotations

from dataclasses import replace

import pytest

from balancer.fleet.awake_clock import AwakeClock
from balancer.fleet.membership import ChangeKind, EnrollOutcome, Membership, MembershipRule
from balancer.fleet.registration import BadRegistration, Registration, SdkTooOld, check_sdk_version
from runtime.primitives.clock import NS_PER_MS, NS_PER_S

FACTS = Registration("r1", 5, "127.0.0.1:1", "127.0.0.1:2", 8, sdk_version="0.1.0")


def sweep_to(membership: Membership, from_ms: int, to_ms: int) -> list[tuple[int, ChangeKind]]:
    return [(now_ms, change.kind) for now_ms in range(from_ms, to_ms + 1, 100) for change in membership.sweep(now_ms * NS_PER_MS)]


# requirement F1
def test_a_lease_that_ordinary_silence_could_end_is_refused_with_the_numbers() -> None:
    with pytest.raises(ValueError, match=r"lease_ttl_ms is 6000; allowed: above 2 x .* = 2 x 1000 x 3 = 6000"):
        MembershipRule(lease_ttl_ms=6000)
    with pytest.raises(ValueError, match="suspect_after_ms is 900"):
        MembershipRule(suspect_after_ms=900)


# requirement F3
def test_silence_suspects_within_three_seconds_and_the_lease_forgets() -> None:
    membership = Membership(MembershipRule(), 0)
    membership.enroll(FACTS, 0)
    member = membership.get("r1")
    assert member is not None
    assert sweep_to(membership, 100, 2500) == []
    assert sweep_to(membership, 2600, 2600) == [(2600, ChangeKind.SUSPECTED)]
    assert "silent" in member.ineligible
    assert membership.heard(member, 2650 * NS_PER_MS)
    assert member.ineligible == ""
    seen = sweep_to(membership, 2700, 13_000)
    assert [kind for _, kind in seen] == [ChangeKind.SUSPECTED, ChangeKind.FORGOTTEN]
    assert 12_600 <= seen[1][0] <= 12_800
    assert membership.get("r1") is None


def test_our_own_late_loop_is_not_their_silence() -> None:
    membership = Membership(MembershipRule(), 0)
    membership.enroll(FACTS, 0)
    sweep_to(membership, 100, 1000)
    assert membership.sweep(9 * NS_PER_S) == []  # eight seconds in which we slept
    assert membership.awake.slept_ns == 8 * NS_PER_S - 200 * NS_PER_MS
    assert [kind for _, kind in sweep_to(membership, 9100, 10_500)] == [ChangeKind.SUSPECTED]


def test_a_broken_stream_is_against_it_at_once_and_its_legs_after_the_grace() -> None:
    membership = Membership(MembershipRule(), 0)
    membership.enroll(FACTS, 0)
    member = membership.get("r1")
    assert member is not None
    membership.stream_lost(member, 0)
    assert "stream" in member.ineligible
    assert sweep_to(membership, 100, 2000) == [(1000, ChangeKind.LEGS_LOST)]
    assert membership.enroll(FACTS, 2 * NS_PER_S)[0] is EnrollOutcome.RETURNED


def test_newer_lives_win() -> None:
    membership = Membership(MembershipRule(), 0)
    assert membership.enroll(FACTS, 0)[0] is EnrollOutcome.ADDED
    assert membership.enroll(replace(FACTS, incarnation=6), 0)[0] is EnrollOutcome.REPLACED
    outcome, holder = membership.enroll(FACTS, 0)
    assert outcome is EnrollOutcome.OLDER
    assert holder is not None
    assert holder.facts.incarnation == 6


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("runtime_id", "Not Valid"), ("runtime_id", ""), ("incarnation", 0), ("websocket_address", "nowhere"),
        ("grpc_address", "h:99999"), ("grpc_address", "a@b:1"), ("hard_limit", 0), ("version", "v1"), ("sdk_version", ""),
        ("live", (("bad id", 1),)), ("live", (("ok", 0),)),
    ],
)  # fmt: skip
def test_a_bad_registration_names_its_field(field: str, value: object) -> None:
    with pytest.raises(BadRegistration, match=f"register.{field}"):
        replace(FACTS, **{field: value})  # type: ignore[arg-type]  # one bad field at a time


def test_an_old_library_is_told_both_versions() -> None:
    check_sdk_version(FACTS, "0.1")
    with pytest.raises(SdkTooOld, match=r"'0\.1\.0' is older than min_sdk_version '0\.2'"):
        check_sdk_version(FACTS, "0.2")


def test_the_awake_clock_never_runs_fast_or_back() -> None:
    clock = AwakeClock(0, 200)
    assert [clock.tick(now) for now in (100, 250, 1000, 900, 1050)] == [100, 250, 450, 450, 500]
    assert clock.at(1150) == 600
    assert clock.at(9999) == 700
