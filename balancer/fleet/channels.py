"""One gRPC channel a runtime address, shared by report watches and placements."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import grpc

__all__ = ["RuntimeChannels"]

_OPTIONS: Final = (
    # A runtime that restarts on its old address must be reached again within about a second.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # Half-open peers are found by our own probes, also while no call is open.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.enable_http_proxy", 0),
)


class RuntimeChannels:
    """Channels are made on first use. Close with `close_all`; `keep_only` closes those of runtimes that are gone."""

    def __init__(self) -> None:
        self._channels: dict[str, grpc.aio.Channel] = {}

    def __len__(self) -> int:
        return len(self._channels)

    def to(self, address: str) -> grpc.aio.Channel:
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = grpc.aio.insecure_channel(address, options=_OPTIONS)
        return channel

    async def keep_only(self, addresses: Collection[str]) -> None:
        for address in [address for address in self._channels if address not in addresses]:
            await self._channels.pop(address).close()

    async def close_all(self) -> None:
        await self.keep_only(())
