"""Checkpoints as bytes: JSON, versioned, bounded, and checked strictly when read."""

from __future__ import annotations

from typing import Final

import msgspec

from runtime.dialogue.checkpoint import CHECKPOINT_VERSION, Checkpoint
from runtime.primitives.errors import Fault, VoiceError

__all__ = ["LONGEST_BYTES", "BadCheckpoint", "decode_checkpoint", "encode_checkpoint"]

LONGEST_BYTES: Final = 512 * 1024
"""The history is at most 64 Ki characters and usual checkpoints are a few kilobytes; the rest is room for an agent's notes."""


class BadCheckpoint(VoiceError):
    """A checkpoint that cannot be read, or must not be written; the text names the place and what is allowed, never a value."""

    code = "bad_checkpoint"
    fault = Fault.US

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"checkpoint: {problem}")


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """Raises BadCheckpoint where it is too long, or an agent's notes hold what is no JSON."""
    try:
        encoded = msgspec.json.encode(checkpoint)
    except (TypeError, ValueError) as error:
        raise BadCheckpoint("the agent's memory holds what is no JSON value") from error
    if len(encoded) > LONGEST_BYTES:
        raise BadCheckpoint(f"it has {len(encoded)} bytes; allowed: {LONGEST_BYTES}")
    return encoded


def decode_checkpoint(encoded: bytes) -> Checkpoint:
    """Reads this version and one either way: unknown fields are ignored, new ones have defaults. Raises BadCheckpoint."""
    if len(encoded) > LONGEST_BYTES:
        raise BadCheckpoint(f"it has {len(encoded)} bytes; allowed: {LONGEST_BYTES}")
    try:
        checkpoint = msgspec.json.decode(encoded, type=Checkpoint)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        # msgspec names the path and the expected type; what was there instead may be a caller's words and is not repeated.
        where = str(error).rpartition(" - at ")[2] if " - at " in str(error) else "the document"
        raise BadCheckpoint(f"{where} is not as it should be") from error
    if abs(checkpoint.version - CHECKPOINT_VERSION) > 1:
        low, high = CHECKPOINT_VERSION - 1, CHECKPOINT_VERSION + 1
        raise BadCheckpoint(f"version is {checkpoint.version}; allowed: {low} to {high}")
    return checkpoint
