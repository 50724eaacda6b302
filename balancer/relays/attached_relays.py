"""What a control knows of its relays: what each holds and reported last, and for how long the lost are remembered. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from runtime.primitives.clock import NS_PER_S

__all__ = ["AttachedRelay", "AttachedRelays"]

_GRACE_NS: Final = 10 * NS_PER_S
"""A relay whose stream is lost has this long to come back before what it held is let go."""


@dataclass(slots=True)
class AttachedRelay:
    """One life of a relay. `held`: sessions by id, with the highest epoch that was used."""

    relay_id: str
    life: int
    operator_address: str
    since_ns: int
    held: dict[str, int] = field(default_factory=dict)
    unlisted: set[str] = field(default_factory=set)
    """Of what was held before its stream broke, what the new stream has not named yet."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    moves: Mapping[tuple[str, str], int] = field(default_factory=dict)
    lost_ns: int | None = None


class AttachedRelays:
    """`hold` and `let_go` tell the placer."""

    def __init__(self, hold: Callable[[str, int], None], let_go: Callable[[str], None]) -> None:
        self._hold = hold
        self._let_go = let_go
        self._relays: dict[int, AttachedRelay] = {}

    def attached(self) -> list[AttachedRelay]:
        """Those whose stream is open."""
        return [relay for relay in self._relays.values() if relay.lost_ns is None]

    def holder(self, session_id: str) -> AttachedRelay | None:
        return next((relay for relay in self.attached() if session_id in relay.held), None)

    def attend(self, relay_id: str, life: int, operator_address: str, now_ns: int) -> AttachedRelay:
        """A stream of this life has begun: what it held before counts until it has listed what it holds now."""
        relay = self._relays.get(life)
        if relay is None:
            relay = self._relays[life] = AttachedRelay(relay_id, life, operator_address, now_ns)
        relay.since_ns, relay.lost_ns = now_ns, None
        relay.unlisted = set(relay.held)
        return relay

    def held(self, relay: AttachedRelay, session_id: str, epoch: int) -> None:
        relay.held[session_id] = epoch
        relay.unlisted.discard(session_id)
        self._hold(session_id, epoch)

    def let_go(self, relay: AttachedRelay, session_id: str) -> None:
        relay.unlisted.discard(session_id)
        if relay.held.pop(session_id, None) is not None and not any(session_id in each.held for each in self._relays.values()):
            self._let_go(session_id)

    def listed(self, relay: AttachedRelay) -> None:
        for session_id in list(relay.unlisted):
            self.let_go(relay, session_id)

    def lost(self, relay: AttachedRelay, now_ns: int) -> None:
        """Its stream is over."""
        relay.lost_ns = now_ns

    def tend(self, now_ns: int) -> list[AttachedRelay]:
        """Forgets those that did not come back in time, and answers them."""
        over = [each for each in self._relays.values() if each.lost_ns is not None and now_ns - each.lost_ns >= _GRACE_NS]
        for relay in over:
            for session_id in list(relay.held):
                self.let_go(relay, session_id)
            del self._relays[relay.life]
        return over

    def documents(self, now_ns: int) -> list[dict[str, object]]:
        """For operators, by name."""
        return [
            {
                "relay_id": relay.relay_id,
                "operator": relay.operator_address,
                "attached_s": round((now_ns - relay.since_ns) / NS_PER_S, 3),
                "held": len(relay.held),
                "numbers": dict(relay.numbers),
            }
            for relay in sorted(self.attached(), key=lambda each: each.relay_id)
        ]

    def move_counts(self) -> Mapping[tuple[str, str], float]:
        """Of all relays whose stream is open, as they reported it last."""
        total: Counter[tuple[str, str]] = Counter()
        for relay in self.attached():
            total.update(relay.moves)
        return total
