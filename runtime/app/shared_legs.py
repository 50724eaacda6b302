"""Mirrors the ledger's legs into this worker's shard, inside the same step of the event loop."""

from __future__ import annotations

from typing import assert_never

from runtime.primitives.ids import Epoch, SessionId
from runtime.session.ledger import LegChange, LegEvent
from runtime.session.shared_shard import Shard

__all__ = ["SharedLegs"]


class SharedLegs:
    """A listener of the ledger. What the process counts and what the machine sees agree at every await."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._slots: dict[tuple[SessionId, Epoch], int] = {}

    def leg_changed(self, event: LegEvent) -> None:
        leg = event.session_id, event.epoch
        match event.change:
            case LegChange.STARTED:
                self._slots[leg] = self._shard.start(*leg)
            case LegChange.MOVED_IN:
                self._slots[leg] = self._shard.start(*leg, moved_in=True)
            case LegChange.MOVED_OUT:
                self._shard.move_out(self._slots.pop(leg))
            case LegChange.ENDED:
                assert event.reason is not None, "an end has a reason"
                self._shard.end(self._slots.pop(leg), event.reason)
            case _:
                assert_never(event.change)
