"""What a scripted conversation needs of a wire, with everything a caller is told in the same few words.

| kind | holds |
|---|---|
| started | text: session id |
| speech_started, speech_stopped, reply_started, held, resumed | |
| transfer | text: to whom |
| transcript, reply_text, reply_done, error, ended | text |
| audio | audio: PCM16 at 24 kHz |
| tool_call, tool_result | text: its JSON |
| tool_request | text: its JSON; name: the call's id |
| flush | |

A wire tells some of these; `Caller.tells` says which.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import anyio
import numpy as np

__all__ = ["RATE_HZ", "TELLS_ALL", "Caller", "Listener", "Refused", "Told", "speech"]

RATE_HZ = 24_000
TELLS_ALL = frozenset(
    {
        "started",
        "speech_started",
        "speech_stopped",
        "transcript",
        "reply_started",
        "reply_text",
        "reply_done",
        "audio",
        "tool_call",
        "tool_result",
        "tool_request",
        "flush",
        "error",
        "ended",
        "held",
        "resumed",
        "transfer",
    }
)


@dataclass(frozen=True)
class Told:
    kind: str
    generation: int = 0
    text: str = ""
    audio: bytes = b""
    name: str = ""


class Refused(Exception):
    """The call never was. `retry_ms` 0: nothing was said of trying again."""

    def __init__(self, status: str, reason: str, retry_ms: int) -> None:
        self.status, self.reason, self.retry_ms = status, reason, retry_ms
        super().__init__(f"{status} {reason} {retry_ms}")


def speech(voiced_s: float = 0.5, silent_s: float = 0.8) -> bytes:
    """Sound that the synthetic detector takes for speech, then silence: a turn."""
    count = int(voiced_s * RATE_HZ)
    tone = np.where(np.arange(count) // 24 % 2, 8_000, -8_000).astype("<i2").tobytes()
    return tone + bytes(2 * int(silent_s * RATE_HZ))


class Caller(Protocol):
    """One call. `told` grows while the block that made it lasts."""

    tells: frozenset[str]
    told: list[Told]
    end_status: str
    """How the server's side ended: a close code and reason, or a gRPC status; empty while it goes on."""

    async def say(self, pcm: bytes) -> None: ...

    async def type(self, text: str) -> None:
        """On a wire without text: says it."""
        ...

    async def answer_tool(self, call_id: str, output: str) -> None: ...

    async def send_nonsense(self) -> None:
        """A message that the wire allows and nobody knows."""
        ...

    async def say_goodbye(self) -> None: ...

    def vanish(self) -> None: ...

    def of(self, kind: str) -> list[Told]: ...

    async def until(self, kind: str, count: int = 1) -> Told: ...

    async def until_over(self) -> str: ...


class Listener:
    tells = TELLS_ALL

    def __init__(self) -> None:
        self.told: list[Told] = []
        self.end_status = ""
        self._news = anyio.Event()

    def of(self, kind: str) -> list[Told]:
        return [each for each in self.told if each.kind == kind]

    async def until(self, kind: str, count: int = 1) -> Told:
        with anyio.fail_after(20):
            while len(self.of(kind)) < count:
                assert not self.end_status, f"the call ended {self.end_status!r} before {kind} {count}: {self.told[-5:]}"
                self._news = anyio.Event()
                await self._news.wait()
        return self.of(kind)[count - 1]

    async def until_over(self) -> str:
        with anyio.fail_after(20):
            while not self.end_status:
                self._news = anyio.Event()
                await self._news.wait()
        return self.end_status

    def hear(self, told: Told | None) -> None:
        if told is not None:
            self.told.append(told)
            self._news.set()

    def over(self, status: str) -> None:
        self.end_status = status
        self._news.set()
