"""The inflow bucket: bursts up to its depth, then the fair rate."""

from __future__ import annotations

from runtime.session.inflow import InflowBucket

_S = 1_000_000_000


def _taken(bucket: InflowBucket, tries: int, now_ns: int) -> int:
    return sum(bucket.take(now_ns) for _ in range(tries))


def test_a_burst_ends_at_the_depth() -> None:
    assert _taken(InflowBucket(4, 1.0, 4.0, 0), 10, 0) == 4


def test_it_refills_at_the_rate_and_not_above_the_depth() -> None:
    bucket = InflowBucket(4, 2.0, 4.0, 0)
    _taken(bucket, 4, 0)
    assert _taken(bucket, 10, _S) == 2
    assert _taken(bucket, 10, 100 * _S) == 4


def test_the_fair_share_raises_the_rate_but_unknown_changes_nothing() -> None:
    bucket = InflowBucket(4, 1.0, 4.0, 0)
    _taken(bucket, 4, 0)
    bucket.set_fair_share(0.0, 0)
    assert _taken(bucket, 10, _S) == 1
    bucket.set_fair_share(0.75, _S)
    assert _taken(bucket, 10, 2 * _S) == 3


def test_a_clock_that_goes_back_gives_nothing() -> None:
    bucket = InflowBucket(4, 1.0, 4.0, 10 * _S)
    _taken(bucket, 4, 10 * _S)
    assert _taken(bucket, 1, 0) == 0
    assert _taken(bucket, 10, 11 * _S) == 1


def test_wait_ms_is_when_the_next_one_comes() -> None:
    bucket = InflowBucket(4, 2.0, 4.0, 0)
    _taken(bucket, 4, 0)
    assert not bucket.take(0)
    wait_ms = bucket.wait_ms()
    assert 500 <= wait_ms <= 502
    assert bucket.take(wait_ms * 1_000_000)


def test_a_new_runtime_takes_little_at_first() -> None:  # bug B14: everybody's favourite
    bucket = InflowBucket(16, 0.5, 4.0, 0, ramp_s=60.0)
    bucket.set_fair_share(1.0, 0)
    assert _taken(bucket, 100, 0) == 4
    first = sum(_taken(bucket, 100, second * _S) for second in range(1, 31))
    assert 60 <= first <= 80  # twice its share, rising
    later = sum(_taken(bucket, 100, second * _S) for second in range(31, 60))
    assert 72 <= later <= 88  # at most three times
    assert _taken(bucket, 100, 70 * _S) == 16  # then its full depth
