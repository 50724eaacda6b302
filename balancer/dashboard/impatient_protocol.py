"""The operators' HTTP connections: one whose first request does not come in time is dropped."""

from __future__ import annotations

import asyncio
from typing import Final

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["ImpatientProtocol"]

_REQUEST_S: Final = 10.0


class ImpatientProtocol(H11Protocol):
    """uvicorn limits the wait between two requests, not the wait for the first."""

    _limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        self._limit = self.loop.call_later(_REQUEST_S, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._limit is not None:
            self._limit.cancel()
        super().connection_lost(exc)

    def _give_up(self) -> None:
        if self.cycle is None:  # no request's head was ever whole
            self.transport.abort()
