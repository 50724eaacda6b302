"""What the calls of one runtime know of its life together."""

from __future__ import annotations

from balancer.continuity.pulses import Pulses

ONE, AGAIN, OTHER = ("one", 1), ("one", 2), ("other", 1)


def test_who_was_heard_by_any_call_is_alive_until_the_next_look() -> None:
    pulses = Pulses()
    pulses.look([ONE, ONE])
    assert pulses.is_alive(ONE)
    assert not pulses.is_alive(AGAIN)  # another life under the same name says nothing of this one
    assert not pulses.is_alive(OTHER)
    pulses.look([OTHER])
    assert not pulses.is_alive(ONE)


def test_two_calls_a_look_are_probed_of_each_runtime() -> None:
    pulses = Pulses()
    for _ in range(2):
        pulses.look([])
        asked = []
        for life in [ONE, OTHER] * 3:
            if pulses.may_probe(life):
                pulses.probed(life)
                asked.append(life)
        assert asked == [ONE, OTHER] * 2
