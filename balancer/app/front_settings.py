"""What the settings mean for the public port."""

from __future__ import annotations

from balancer.app.settings import BalancerSettings
from balancer.continuity.call_memory import MemoryRule
from balancer.front.front_rule import FrontRule
from balancer.front.relay_rule import RelayRule, ReturnRule, SuccessionRule

__all__ = ["front_rule"]


def front_rule(settings: BalancerSettings) -> FrontRule:
    relay = RelayRule(
        max_frame_bytes=settings.max_frame_bytes,
        probe_after_ms=settings.probe_after_ms,
        dead_after_ms=settings.dead_after_ms,
        stalled_after_ms=settings.stalled_after_ms,
        coming_back=ReturnRule(grace_ms=round(settings.resume_grace_s * 1000), most_away=settings.resume_most_away),
        succession=SuccessionRule(
            memory=MemoryRule(most_bytes=settings.replay_most_bytes),
            probe_after_ms=settings.runtime_probe_after_ms,
            suspect_after_ms=settings.runtime_suspect_after_ms,
            move_timeout_ms=settings.move_timeout_ms,
            adopt_timeout_ms=settings.adopt_timeout_ms,
        ),
    )
    shortest = min(
        settings.probe_after_ms, settings.dead_after_ms, settings.stalled_after_ms, settings.head_timeout_ms,
        settings.runtime_probe_after_ms, settings.move_timeout_ms,
    )  # fmt: skip
    return FrontRule(
        relay=relay,
        head_timeout_ms=settings.head_timeout_ms,
        dial_timeout_ms=settings.dial_timeout_ms,
        max_connections=settings.max_connections,
        tend_interval_ms=max(20, min(1000, shortest // 4)),
    )
