"""One gRPC channel a runtime address, shared by report watches and placements."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import grpc

from runtime.primitives.clock import NS_PER_S
from runtime.wire.keepalive import probing

__all__ = ["RuntimeChannels"]

_OPTIONS: Final = (
    # A runtime that restarts on its old address must be reached again within about a second.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # Half-open peers are found by our own probes, also while no call is open.
    *probing(10_000, 3_000),
    ("grpc.enable_http_proxy", 0),
)


_CLOSED_AFTER_NS: Final = 60 * NS_PER_S
"""Longer than any call's deadline: closing a channel under a call looks to its caller like its own cancellation."""


class RuntimeChannels:
    """Channels are made on first use. Close with `close_all`; `keep_only` closes those of runtimes that are long gone."""

    def __init__(self) -> None:
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._unneeded_ns: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._channels)

    def to(self, address: str) -> grpc.aio.Channel:
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = grpc.aio.insecure_channel(address, options=_OPTIONS)
        return channel

    async def keep_only(self, addresses: Collection[str], now_ns: int) -> None:
        """Closes what was in none of the calls for a minute."""
        for address in list(self._channels):
            if address in addresses:
                self._unneeded_ns.pop(address, None)
            elif now_ns - self._unneeded_ns.setdefault(address, now_ns) > _CLOSED_AFTER_NS:
                del self._unneeded_ns[address]
                await self._channels.pop(address).close()

    async def close_all(self) -> None:
        """For the end of the process: calls under way end as cancelled."""
        while self._channels:
            await self._channels.popitem()[1].close()
