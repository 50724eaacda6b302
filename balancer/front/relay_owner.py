"""What a relay needs of whoever holds all of them."""

from __future__ import annotations

from typing import Protocol

from balancer.front.succession_ports import RelayedCall
from runtime.primitives.clock import Clock

__all__ = ["RelayOwner"]


class RelayOwner(Protocol):
    clock: Clock

    def mask_key(self) -> bytes:
        """Four fresh bytes for a frame of ours towards a runtime."""
        ...

    def relay_ended(self, call: RelayedCall) -> None:
        """Both connections are gone. Called once."""
        ...
