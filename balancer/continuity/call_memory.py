"""What is kept of a call so that another runtime can go on with it: the checkpoint, the caller's messages since, the intents."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from typing import Final

from balancer.continuity.intents import Intents
from balancer.continuity.kept_messages import KeptMessages
from runtime.primitives.clock import NS_PER_MS, NS_PER_S

__all__ = ["CallMemory", "Checkpoint", "MemoryRule"]

_LONGEST_STATE_BYTES: Final = 512 * 1024
_PACKED_AFTER_NS: Final = 5 * NS_PER_S
"""Longer than a call in which somebody speaks goes without a new one. Packing takes 0.1 ms."""


@dataclass(frozen=True, slots=True)
class MemoryRule:
    """30 s of 24 kHz PCM in base64 are 2.2 MB of the caller's messages."""

    most_bytes: int = 3 * 1024 * 1024
    most_age_ms: int = 30_000


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The session at one place in the stream of server messages. `after`: ordinal of the last one before it. `is_packed`: its
    state is kept as zlib makes it."""

    state: bytes
    applied: int
    replay_from: int
    is_quiet: bool
    after: int
    is_packed: bool = False

    @property
    def whole_state(self) -> bytes:
        return zlib.decompress(self.state) if self.is_packed else self.state


class CallMemory:
    """Pure. Ordinals of server messages count over all legs of the call."""

    __slots__ = ("_lasts_since_ns", "checkpoint", "intents", "kept")

    def __init__(self, rule: MemoryRule) -> None:
        self.kept = KeptMessages(rule.most_bytes, rule.most_age_ms * NS_PER_MS)
        self.intents = Intents()
        self.checkpoint: Checkpoint | None = None
        self._lasts_since_ns = 0
        """When the checkpoint was first seen to be there; 0: not yet."""

    @property
    def can_restore(self) -> bool:
        """Whether another runtime could go on now. False before the first checkpoint, and while messages are missing."""
        return self.checkpoint is not None and self.kept.covers(self.checkpoint.replay_from)

    def can_begin_anew(self, told: int) -> bool:
        """Whether another runtime could serve the call from its beginning: none has come far enough for a checkpoint, nothing was
        said or done, and all that the caller sent is here. `told`: server messages that the caller was sent."""
        return self.checkpoint is None and not told and not self.intents and self.kept.covers(1)

    def take(self, checkpoint: Checkpoint, client_messages: int) -> str:
        """The newest checkpoint; the messages before what it needs are forgotten. Answers what is wrong with it, if anything:
        then nothing has changed. `client_messages`: ordinal of the caller's last message."""
        before = 0 if self.checkpoint is None else self.checkpoint.applied
        if len(checkpoint.state) > _LONGEST_STATE_BYTES:
            return f"a checkpoint of {len(checkpoint.state)} bytes; at most {_LONGEST_STATE_BYTES}"
        if not before <= checkpoint.applied <= client_messages:
            return f"checkpoint.applied is {checkpoint.applied}; allowed: {before} to {client_messages}"
        if not 1 <= checkpoint.replay_from <= checkpoint.applied + 1:
            return f"checkpoint.replay_from is {checkpoint.replay_from}; allowed: 1 to applied + 1 = {checkpoint.applied + 1}"
        self.checkpoint, self._lasts_since_ns = checkpoint, 0
        self.kept.forget_below(checkpoint.replay_from)
        return ""

    def tick(self, now_ns: int) -> None:
        """Time passed. A checkpoint that lasts is packed: of a silent call it is most of what is kept, by far."""
        self.kept.tick(now_ns)
        checkpoint = self.checkpoint
        if checkpoint is None or checkpoint.is_packed:
            return
        if not self._lasts_since_ns:
            self._lasts_since_ns = now_ns
        elif now_ns - self._lasts_since_ns > _PACKED_AFTER_NS:
            self.checkpoint = replace(checkpoint, state=zlib.compress(checkpoint.state, 1), is_packed=True)
