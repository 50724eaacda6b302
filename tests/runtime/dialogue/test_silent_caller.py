"""When a silent caller is asked."""

from __future__ import annotations

from runtime.dialogue.silent_caller import SilentCaller


def test_asked_after_each_wait_and_three_times_in_a_row() -> None:
    caller = SilentCaller()
    asked = [(now_ms, count) for now_ms in range(0, 20_000, 100) if (count := caller.due(now_ms, 3_000))]
    assert asked == [(3_000, 1), (6_000, 2), (9_000, 3)]


def test_the_wait_begins_when_the_agent_is_done() -> None:
    caller = SilentCaller()
    caller.agent_finished(5_000)
    assert not caller.due(7_900, 3_000)
    assert caller.due(8_000, 3_000) == 1


def test_who_speaks_is_asked_anew() -> None:
    caller = SilentCaller(asked=3, since_ms=0)
    assert not caller.due(60_000, 3_000)
    caller.spoke()
    assert SilentCaller(*caller.state).due(60_000, 3_000) == 1


def test_no_wait_asks_never() -> None:
    assert not SilentCaller().due(10**9, 0)
