"""A set of engines that also knows how to end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from runtime.engines.ports import Engines

__all__ = ["LoadedEngines"]


@dataclass(frozen=True, slots=True)
class LoadedEngines(Engines):
    """What `load_engines` gives: engines that may be used from any event loop, until `close`."""

    closers: tuple[Callable[[], None], ...] = ()

    def close(self) -> None:
        """Ends the engines' threads. Blocks under half a second: an event loop calls it in a thread. Idempotent."""
        for closer in self.closers:
            closer()
