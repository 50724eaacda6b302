"""The agent that the fault lab talks to: on demand it fails, or says more than a caller can read.

Its two demands are texts that a caller types. Anything else it does not answer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import anyio.lowlevel

from runtime.dialogue.agent import Turn

__all__ = ["FAULT", "FLOOD", "LabAgent"]

FAULT: Final = "fault"
FLOOD: Final = "flood"
_BLANKS: Final = " " * 8_192
"""White space has no sound, so nothing holds the text back but the caller."""
_DELTAS: Final = 400
"""3 MiB: more than the sockets between take, fewer events than may wait, so that the time limit is what ends it."""


class _Fault(BaseException):
    """No Exception, so that it is no fault of an author that becomes speech."""


class LabAgent:
    """As `runtime.dialogue.agent.Agent` asks for."""

    name = "lab"
    tools = ()

    async def reply(self, turn: Turn) -> AsyncIterator[str]:
        if turn.text == FAULT:
            raise _Fault
        elif turn.text == FLOOD:
            for _ in range(_DELTAS):
                yield _BLANKS
                await anyio.lowlevel.checkpoint()  # a caller that reads can keep up
