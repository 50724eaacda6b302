"""When a silent runtime is probed and suspected, and that our own lateness is not its silence."""

from __future__ import annotations

from balancer.continuity.silence_watch import Silence, SilenceWatch
from balancer.fleet.awake_clock import AwakeClock
from runtime.primitives.clock import NS_PER_MS

STEP = 250 * NS_PER_MS


def looks(watch: SilenceWatch, times: int, first_ns: int = 0, heard_at: tuple[int, ...] = ()) -> list[tuple[Silence, bool]]:
    return [watch.look(first_ns + number * STEP, number in heard_at) for number in range(times)]


def test_a_second_of_silence_is_probed_and_two_are_too_long() -> None:  # requirement C3
    seen = looks(SilenceWatch(1000, 2000), 14)
    assert [number for number, (_, is_due) in enumerate(seen) if is_due] == [4, 8, 12]
    assert [silence for silence, _ in seen] == [Silence.NONE] + [Silence.SHORT] * 7 + [Silence.TOO_LONG] * 6


def test_whoever_is_heard_now_and_then_is_never_suspected() -> None:
    seen = looks(SilenceWatch(1000, 2000), 100, heard_at=tuple(range(0, 100, 6)))
    assert Silence.TOO_LONG not in [silence for silence, _ in seen]


def test_an_answer_clears_it_and_the_count_begins_anew() -> None:
    watch = SilenceWatch(1000, 2000)
    assert looks(watch, 10)[-1][0] is Silence.TOO_LONG
    assert watch.look(10 * STEP, was_heard=True)[0] is Silence.NONE
    assert watch.look(17 * STEP, was_heard=False)[0] is Silence.SHORT
    assert watch.look(18 * STEP, was_heard=False)[0] is Silence.TOO_LONG


def test_another_runtimes_silence_counts_from_its_first_look() -> None:
    watch = SilenceWatch(1000, 2000)
    looks(watch, 10)
    watch.begin_again()
    assert watch.look(100 * STEP, was_heard=False) == (Silence.NONE, False)
    assert watch.look(107 * STEP, was_heard=False)[0] is Silence.SHORT


def test_a_loop_that_stood_still_suspects_nobody() -> None:
    watch, awake = SilenceWatch(1000, 2000), AwakeClock(0, 2 * STEP)
    now_ns = 0
    for _ in range(4):
        now_ns += STEP
        watch.look(awake.tick(now_ns), was_heard=True)
    now_ns += 60_000 * NS_PER_MS
    assert watch.look(awake.tick(now_ns), was_heard=False)[0] is Silence.SHORT
