"""A caller that may lose its connection and come back to its call, whatever it speaks. (requirement C4)

It brings a key of its own with its first upgrade. What it is told is kept for a while then; when its connection breaks, the call
waits for it, runtime and all, and another connection with the key goes on where the messages of both directions stand:

    caller   GET ...?session_id=S&resume_key=K&received=N     it has N of our messages
    relay    101, a text message {"type":"switchboard.resumed","received":M}     of its messages M are here
    relay    our messages from N + 1 on
    caller   its messages from M + 1 on

Only whole messages count, in each direction from 1, over all connections; the relay's own word above does not.
"""

from __future__ import annotations

import hmac
import json
from asyncio import Transport
from collections import Counter
from typing import Final, Protocol

from balancer.continuity.kept_messages import KeptMessages
from balancer.front.goodbye import Goodbye
from balancer.front.relay_leg import Leg
from balancer.front.relay_rule import RelayRule, ReturnRule
from balancer.front.returns import Return
from runtime.primitives.clock import NS_PER_MS
from runtime.wire.websocket_frames import FrameBorders, build_frame

__all__ = ["ComingBack"]

_TEXT: Final = 0x1


class AwaitingCall(Protocol):
    """The relay, as this sees it."""

    caller: Leg
    runtime: Leg
    goodbye: Goodbye
    rule: RelayRule

    @property
    def server_messages(self) -> int: ...

    def now_ns(self) -> int: ...


class ComingBack:
    """One call's."""

    __slots__ = ("_away", "_call", "_key", "_rule", "_told", "_whose", "away_ns")

    def __init__(self, call: AwaitingCall, tenant: str, path: str, key: str, rule: ReturnRule, away: Counter[str]) -> None:
        """`path`: of the caller's upgrade. `away`: of all calls, how many wait, by tenant."""
        self._call = call
        self._away = away
        self._whose = tenant, path
        self._key = key.encode()
        self._rule = rule
        self._told = KeptMessages(rule.most_bytes, rule.most_age_ms * NS_PER_MS)
        self.away_ns: int | None = None
        """Since when nobody is there."""

    @property
    def size_bytes(self) -> int:
        """Of what the caller was told."""
        return self._told.size_bytes

    def fits(self, comes: Return) -> bool:
        """Whether it is this call's caller."""
        return hmac.compare_digest(self._key, comes.key.encode()) and (comes.tenant, comes.path) == self._whose

    def covers(self, received: int) -> bool:
        """Whether all messages after the caller's last, the `received`th, are here."""
        return received <= self._call.server_messages and self._told.covers(received + 1)

    def tell(self, frames: bytes) -> None:
        """Whole frames of the runtime, for the caller."""
        call, told = self._call, self._told
        told.add(frames, call.server_messages, False)
        if self.away_ns is None:
            call.caller.transport.write(frames)
        elif told.is_full and call.caller.paused_ns is None:
            call.caller.paused_ns = call.now_ns()  # nobody reads: the runtime waits, and is not missed for it
            call.runtime.pause_reading()

    def leaves(self) -> bool:
        """The caller's connection is lost, or is no use any more: whether the call waits for another one."""
        call = self._call
        if self.away_ns is not None:
            return True
        if call.goodbye.by_ns is not None or call.caller.close_payload is not None or call.caller.borders.is_in_message:
            return False  # half a message is with the runtime already, and would come again as a whole one
        if self._away[self._whose[0]] >= self._rule.most_away:
            return False
        self._away[self._whose[0]] += 1
        self.away_ns, self._told.is_frozen = call.now_ns(), True
        call.caller.paused_ns = None
        call.runtime.resume_reading()
        call.caller.let_go()
        return True

    def comes(self, transport: Transport, answer: bytes, received: int) -> None:
        """Over `transport` the caller is back, and gets `answer` first. `covers(received)` holds."""
        call = self._call
        if not self.stops():
            call.caller.let_go()  # it seemed to be there still
        self._told.is_frozen = False
        borders = FrameBorders(is_masked=True, max_frame_bytes=call.rule.max_frame_bytes)
        borders.messages = call.caller.borders.messages  # what was half there of a frame comes again
        call.caller.take_up(transport, borders, call.now_ns())
        word = json.dumps({"type": "switchboard.resumed", "received": call.caller.borders.messages}).encode()
        transport.write(answer + build_frame(_TEXT, word) + self._told.since(received + 1))
        # Each side is read as far as the other takes it: what was paused on the connection before is not on this one.
        if call.caller.paused_ns is None:
            call.runtime.resume_reading()
        if call.runtime.paused_ns is not None:
            call.caller.pause_reading()

    def stops(self) -> bool:
        """Nobody is waited for any more; whether somebody was."""
        was_away, self.away_ns = self.away_ns is not None, None
        if was_away:
            self._away[self._whose[0]] -= 1
        return was_away

    def tend(self, now_ns: int) -> bool:
        """Whether the call still waits, or has nothing to wait for."""
        if self.away_ns is None:
            self._told.tick(now_ns)
            return True
        return now_ns - self.away_ns < self._rule.grace_ms * NS_PER_MS
