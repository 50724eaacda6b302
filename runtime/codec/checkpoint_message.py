"""A session as bytes, for the process that goes on with it: JSON behind a digest, versioned, bounded, strictly read."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from runtime.codec.realtime_memory import Continue, ItemWish, KeepItem, Truncate
from runtime.codec.realtime_session import RealtimeSession
from runtime.dialogue import agent_events
from runtime.dialogue.agent_events import Echoed
from runtime.dialogue.checkpoint import CHECKPOINT_VERSION, Checkpoint, WaitingEvent
from runtime.dialogue.checkpoint_check import BadCheckpoint, check_checkpoint

__all__ = ["LONGEST_BYTES", "BadCheckpoint", "KeptSession", "decode_session", "encode_session"]

LONGEST_BYTES: Final = 512 * 1024
"""The history is at most 64 Ki characters and usual checkpoints are a few kilobytes; the rest is room for an agent's notes."""
_DIGEST_BYTES: Final = 16
_EVENTS: Final = {
    name: kind for name, kind in vars(agent_events).items() if name in agent_events.__all__ and inspect.isclass(kind)
}
_ECHOES: Final = {kind.__name__: kind for kind in (RealtimeSession, KeepItem, ItemWish, Truncate, Continue)}
"""What the wires let the conversation hand back."""


@dataclass(frozen=True, slots=True)
class KeptSession:
    """A conversation and its wire.

    Attributes:
        wire: what the wire's codec remembers; a JSON value where it was read.
        following: the messages that the caller is to be sent next; each text or bytes.
    """

    checkpoint: Checkpoint
    wire: Any = None
    following: tuple[str | bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class _Document:
    checkpoint: Checkpoint
    wire: Any
    texts: tuple[str | None, ...]
    blobs: tuple[bytes | None, ...]


def encode_session(kept: KeptSession) -> bytes:
    """Raises BadCheckpoint where it is too long, or an agent's notes hold what is no JSON."""
    told = kept.following
    checkpoint = replace(kept.checkpoint, waiting=tuple(_named(waiting) for waiting in kept.checkpoint.waiting))
    document = _Document(
        checkpoint,
        kept.wire,
        tuple(message if isinstance(message, str) else None for message in told),
        tuple(message if isinstance(message, bytes) else None for message in told),
    )
    try:
        encoded = msgspec.json.encode(document)
    except (TypeError, ValueError) as error:
        raise BadCheckpoint("the agent's memory holds what is no JSON value") from error
    if len(encoded) + _DIGEST_BYTES > LONGEST_BYTES:
        raise BadCheckpoint(f"it has {len(encoded) + _DIGEST_BYTES} bytes; allowed: {LONGEST_BYTES}")
    return _digest(encoded) + encoded


def decode_session(encoded: bytes) -> KeptSession:
    """Reads this version and one either way: unknown fields are ignored, new ones have defaults. Raises BadCheckpoint."""
    if len(encoded) > LONGEST_BYTES:
        raise BadCheckpoint(f"it has {len(encoded)} bytes; allowed: {LONGEST_BYTES}")
    body = encoded[_DIGEST_BYTES:]
    if encoded[:_DIGEST_BYTES] != _digest(body):
        raise BadCheckpoint("its digest does not fit; it was cut off or changed")
    try:
        document = msgspec.json.decode(body, type=_Document)
        checkpoint = document.checkpoint
        waiting = tuple(_read(event, f"$.checkpoint.waiting[{at}]") for at, event in enumerate(checkpoint.waiting))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        # msgspec names the path and the expected type; what was there instead may be a caller's words and is not repeated.
        where = str(error).rpartition(" - at ")[2] if " - at " in str(error) else "the document"
        raise BadCheckpoint(f"{where} is not as it should be") from error
    if abs(checkpoint.version - CHECKPOINT_VERSION) > 1:
        low, high = CHECKPOINT_VERSION - 1, CHECKPOINT_VERSION + 1
        raise BadCheckpoint(f"version is {checkpoint.version}; allowed: {low} to {high}")
    check_checkpoint(checkpoint)
    return KeptSession(replace(checkpoint, waiting=waiting), document.wire, _messages(document.texts, document.blobs))


def _messages(texts: Sequence[str | None], blobs: Sequence[bytes | None]) -> tuple[str | bytes, ...]:
    told = (text if text is not None else blob for text, blob in zip(texts, blobs, strict=False))
    return tuple(message for message in told if message is not None)


def _named(waiting: WaitingEvent) -> WaitingEvent:
    if isinstance(waiting.event, Echoed):
        return WaitingEvent(waiting.kind, {"kind": type(waiting.event.what).__name__, "what": waiting.event.what})
    return waiting


def _read(waiting: WaitingEvent, where: str) -> WaitingEvent:
    kind = _EVENTS.get(waiting.kind)
    if kind is Echoed and isinstance(waiting.event, dict) and waiting.event.get("kind") in _ECHOES:
        echo = _ECHOES[waiting.event["kind"]]
        return WaitingEvent(waiting.kind, Echoed(_converted(waiting.event.get("what"), echo, where)))
    if kind is None or kind is Echoed:
        raise BadCheckpoint(f"{where} is of an unknown kind")
    return WaitingEvent(waiting.kind, _converted(waiting.event, kind, where))


def _converted(value: object, kind: type, where: str) -> object:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        raise BadCheckpoint(f"{where} is not as it should be") from None


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest()
