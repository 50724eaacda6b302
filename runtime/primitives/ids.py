"""The identities of the house, as types that cannot be mixed up, and what a caller may choose as one."""

from __future__ import annotations

import re
from typing import Final, NewType

__all__ = ["BalancerId", "Epoch", "RuntimeId", "SessionId", "is_runtime_id", "is_session_id"]

SessionId = NewType("SessionId", str)
RuntimeId = NewType("RuntimeId", str)
BalancerId = NewType("BalancerId", str)
Epoch = NewType("Epoch", int)

_SESSION_ID: Final = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
_RUNTIME_ID: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


def is_session_id(text: str) -> bool:
    """1-128 characters of `[A-Za-z0-9_.:-]`.

    >>> is_session_id("call-7"), is_session_id(""), is_session_id("a b")
    (True, False, False)
    """
    return _SESSION_ID.fullmatch(text) is not None


def is_runtime_id(text: str) -> bool:
    """1-64 characters of `[a-z0-9-]`, the first no hyphen.

    >>> is_runtime_id("runtime-1"), is_runtime_id("Runtime")
    (True, False)
    """
    return _RUNTIME_ID.fullmatch(text) is not None
