"""What a relay needs of whoever holds all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from runtime.primitives.clock import Clock

if TYPE_CHECKING:
    from balancer.front.relay import Relay

__all__ = ["RelayOwner"]


class RelayOwner(Protocol):
    clock: Clock

    def mask_key(self) -> bytes:
        """Four fresh bytes for a frame of ours towards a runtime."""
        ...

    def may_await(self, relay: Relay) -> bool:
        """Whether one caller more may be waited for."""
        ...

    def relay_ended(self, relay: Relay) -> None:
        """Both connections are gone. Called once."""
        ...
