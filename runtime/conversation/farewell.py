"""The end of a call that the agent has said goodbye to: when its last words were heard, unless the caller has more to say."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from runtime.conversation.ports import Stage
from runtime.primitives.reasons import EndReason

__all__ = ["Farewell"]


class Farewell:
    """Args:
    wait_until_quiet: returns when neither side speaks and no reply is on its way.

    Attributes:
        is_said: the call is about to end.
    """

    def __init__(self, stage: Stage, wait_until_quiet: Callable[[], Awaitable[None]]) -> None:
        self.is_said = False
        self._stage = stage
        self._wait_until_quiet = wait_until_quiet
        self._count = 0

    def say(self, left_s: float) -> None:
        """The goodbye has left; it plays for so long. Who speaks then is heard out first: a cough changes nothing, words do."""
        self.is_said = True
        self._count += 1
        count = self._count

        async def wait() -> None:
            await anyio.sleep(left_s)
            await self._wait_until_quiet()
            if self.is_said and self._count == count:
                self._stage.end(EndReason.CLOSED_BY_AGENT)

        self._stage.start(wait)

    def take_back(self) -> None:
        """Something was said since: the call goes on."""
        self.is_said = False
