"""The identities of the house, as types that cannot be mixed up, and what a caller may choose as one."""

from __future__ import annotations

import re
from typing import Final, NewType

__all__ = [
    "BalancerId",
    "Epoch",
    "RuntimeId",
    "SessionId",
    "as_id_stem",
    "is_machine_id",
    "is_runtime_id",
    "is_session_id",
    "is_tenant",
]

SessionId = NewType("SessionId", str)
RuntimeId = NewType("RuntimeId", str)
BalancerId = NewType("BalancerId", str)
Epoch = NewType("Epoch", int)

_SESSION_ID: Final = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
_TENANT: Final = re.compile(r"[A-Za-z0-9_.:-]{0,64}")
_MACHINE_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_RUNTIME_ID: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


def is_session_id(text: str) -> bool:
    """1-128 characters of `[A-Za-z0-9_.:-]`.

    >>> is_session_id("call-7"), is_session_id(""), is_session_id("a b")
    (True, False, False)
    """
    return _SESSION_ID.fullmatch(text) is not None


def is_tenant(text: str) -> bool:
    """At most 64 characters of `[A-Za-z0-9_.:-]`; none where nobody said.

    >>> is_tenant("acme"), is_tenant(""), is_tenant("a b")
    (True, True, False)
    """
    return _TENANT.fullmatch(text) is not None


def is_runtime_id(text: str) -> bool:
    """1-64 characters of `[a-z0-9-]`, the first no hyphen.

    >>> is_runtime_id("runtime-1"), is_runtime_id("Runtime")
    (True, False)
    """
    return _RUNTIME_ID.fullmatch(text) is not None


def is_machine_id(text: str) -> bool:
    """1-64 characters of `[A-Za-z0-9._-]`, the first a letter or a digit: what hosts are called, and what a file may be called.

    >>> is_machine_id("Rack_7.local"), is_machine_id("a/b"), is_machine_id("..")
    (True, False, False)
    """
    return _MACHINE_ID.fullmatch(text) is not None


def as_id_stem(machine_id: str) -> str:
    """What the ids of a machine's runtimes begin with: its name in the letters of a runtime id, with room for a number behind.

    >>> as_id_stem("Rack_7.local")
    'rack-7-local'
    """
    return machine_id.lower().replace(".", "-").replace("_", "-")[:48]
