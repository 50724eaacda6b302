"""What a caller says of a call that it may come back to, or comes back to, in its upgrade's query. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from balancer.front.responses import HttpError
from balancer.routing.request import PlacementRequest

__all__ = ["Return", "is_return", "resume_key_of", "return_of"]

_KEY: Final = re.compile(r"[A-Za-z0-9_-]{16,128}")
_MOST_MESSAGES: Final = 2**53


@dataclass(frozen=True, slots=True)
class Return:
    """A caller comes back. `received`: how many messages of the call it has."""

    session_id: str
    tenant: str
    path: str
    """Of the wire that it speaks: another could not read what the call says."""
    key: str
    received: int


def resume_key_of(query: str) -> str:
    """Empty: it does not ask for it. Raises HttpError 400."""
    keys = [value for name, value in _pairs(query) if name == "resume_key"]
    if not keys:
        return ""
    if len(keys) > 1 or not _KEY.fullmatch(keys[0]):
        raise HttpError(400, "bad_field", "resume_key is not valid; allowed: once, 16-128 characters of [A-Za-z0-9_-]")
    return keys[0]


def is_return(target: bytes) -> bool:
    """Whether somebody with this request target may be coming back; `return_of` knows."""
    return b"resume_key=" in target and b"received=" in target


def return_of(query: str, needs: PlacementRequest, path: str) -> Return | None:
    """None: it begins a call. Raises HttpError 400."""
    counts = [value for name, value in _pairs(query) if name == "received"]
    key = resume_key_of(query)
    if not counts or not key:
        return None
    count = counts[0]
    if len(counts) > 1 or not (count.isascii() and count.isdecimal() and len(count) < 17 and int(count) < _MOST_MESSAGES):
        raise HttpError(400, "bad_field", "received is not valid; allowed: once, how many messages of the call came")
    return Return(needs.session_id, needs.tenant, path, key, int(count))


def _pairs(query: str) -> Iterable[tuple[str, str]]:
    return parse_qsl(query, keep_blank_values=True) if "resume_key" in query else ()
