"""Whether one side of a call is still there: probes for who is silent, a bound for who does not read."""

from __future__ import annotations

from enum import StrEnum

from balancer.front.relay_leg import Leg
from balancer.front.relay_rule import RelayRule
from runtime.primitives.clock import NS_PER_MS

__all__ = ["LegState", "look_at"]


class LegState(StrEnum):
    WELL = "well"
    PROBE = "probe"
    """Silent for so long that it is asked."""
    DEAD = "dead"
    """It did not answer."""
    STALLED = "stalled"
    """It does not read."""


def look_at(leg: Leg, other: Leg, rule: RelayRule, now_ns: int) -> LegState:
    """Call a few times a second; notes on the leg what was seen."""
    if leg.paused_ns is not None and now_ns - leg.paused_ns > rule.stalled_after_ms * NS_PER_MS:
        return LegState.STALLED
    if leg.heard or other.paused_ns is not None:  # not heard because we do not read: no sign of death
        leg.heard = False
        leg.silent_ns, leg.probed_ns = now_ns, None
    elif leg.probed_ns is not None:
        if now_ns - leg.probed_ns > rule.dead_after_ms * NS_PER_MS:
            return LegState.DEAD
    elif now_ns - leg.silent_ns > rule.probe_after_ms * NS_PER_MS and leg.paused_ns is None:
        leg.probed_ns = now_ns
        return LegState.PROBE
    return LegState.WELL
