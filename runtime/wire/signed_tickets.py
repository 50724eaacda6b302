"""Tickets as text that only a balancer of the fleet can write: what a place is for, sealed with a key that runtimes know too.

    sb1.KEY_ID.CLAIMS.SEAL      CLAIMS: base64url of a JSON array; SEAL: base64url of HMAC-SHA256 over all before the last dot

There is one algorithm, named by the version in front, so nothing in a ticket chooses how it is checked. The seal is compared as
text, in constant time: base64 has several texts for some bytes, and only the one that was written is taken. RFC 2104, RFC 4648.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from runtime.primitives.errors import Fault, VoiceError

__all__ = ["TicketClaims", "TicketFault", "TicketKey", "TicketRefused", "open_ticket", "read_keys", "seal_ticket"]

_VERSION: Final = "sb1"
_TICKET: Final = re.compile(r"(sb1\.([A-Za-z0-9_-]{1,32})\.([A-Za-z0-9_-]{16,1024}))\.([A-Za-z0-9_-]{43})")
_KEY: Final = re.compile(r"([A-Za-z0-9_-]{1,32}):(\S{32,256})")
_KEY_FORM: Final = "ID:SECRET with an id of 1-32 A-Z a-z 0-9 _ - and a secret of 32-256 characters, no id twice, at most 8"
_MOST_KEYS: Final = 8


class TicketFault(StrEnum):
    """Why a ticket opens nothing; stable codes."""

    FORGED = "forged_ticket"
    """Not a ticket, cut off, changed, or sealed with a key that is not known here."""
    EXPIRED = "expired_ticket"
    WRONG_RUNTIME = "wrong_runtime"
    """Of another runtime, or of an earlier life of this one."""
    WRONG_SESSION = "wrong_session"
    """The connection names another session."""
    WRONG_TENANT = "wrong_tenant"
    USED = "used_ticket"
    """Genuine, and its place is taken or was given back."""


_TEXTS: Final[Mapping[TicketFault, str]] = {
    TicketFault.FORGED: "the ticket was not made by a balancer of this fleet, or was changed on the way",
    TicketFault.EXPIRED: "the ticket has expired; ask for a new assignment",
    TicketFault.WRONG_RUNTIME: "the ticket is for another runtime; connect to the address that came with it",
    TicketFault.WRONG_SESSION: "the connection names another session than its ticket",
    TicketFault.WRONG_TENANT: "the connection names another tenant than its ticket",
    TicketFault.USED: "the ticket was used or given back; ask for a new assignment",
}


class TicketRefused(VoiceError):
    """Nothing was opened, and nothing was used up."""

    fault = Fault.PEER

    def __init__(self, why: TicketFault) -> None:
        self.why = why
        self.code = why.value
        self.retryable = why in (TicketFault.EXPIRED, TicketFault.USED)
        super().__init__(_TEXTS[why])


@dataclass(frozen=True, slots=True)
class TicketKey:
    """`secret`: at least 32 bytes that nobody can guess."""

    key_id: str
    secret: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class TicketClaims:
    """What a ticket says.

    Attributes:
        place: the name under which the runtime holds the place; it is good once.
        runtime_id, incarnation: the one life of a runtime that holds it.
        expires_ns: on that life's own monotonic clock, so that no clocks have to agree.
        tenant: whose session it is; empty where nobody said.
    """

    place: str
    session_id: str
    epoch: int
    runtime_id: str
    incarnation: int
    expires_ns: int
    tenant: str = ""


def read_keys(texts: Iterable[str]) -> tuple[TicketKey, ...]:
    """Keys as a setting has them; the first is the one that seals. Raises ValueError, which names no secret.

    >>> read_keys(["now:" + "x" * 32])
    (TicketKey(key_id='now'),)
    """
    keys: dict[str, TicketKey] = {}
    for text in texts:
        matched = _KEY.fullmatch(text)
        if matched is None or matched[1] in keys:
            raise ValueError(_KEY_FORM)
        keys[matched[1]] = TicketKey(matched[1], matched[2].encode())
    if len(keys) > _MOST_KEYS:
        raise ValueError(_KEY_FORM)
    return tuple(keys.values())


def seal_ticket(claims: TicketClaims, key: TicketKey) -> str:
    """The ticket's text, safe in a URL and a header."""
    values = [
        claims.place, claims.session_id, claims.epoch, claims.runtime_id, claims.incarnation, claims.expires_ns, claims.tenant,
    ]  # fmt: skip
    sealed = f"{_VERSION}.{key.key_id}.{_base64(json.dumps(values, separators=(',', ':')).encode())}"
    return f"{sealed}.{_seal(sealed, key)}"


def open_ticket(ticket: str, keys: Mapping[str, TicketKey]) -> TicketClaims:
    """What a genuine ticket says; whether it holds here and now is for the caller to check. Raises TicketRefused (FORGED)."""
    matched = _TICKET.fullmatch(ticket)
    key = keys.get(matched[2]) if matched is not None else None
    if matched is None or key is None or not hmac.compare_digest(_seal(matched[1], key), matched[4]):
        raise TicketRefused(TicketFault.FORGED)
    try:
        text = matched[3]
        place, session_id, epoch, runtime_id, incarnation, expires_ns, tenant = json.loads(
            base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        )
    except (ValueError, TypeError, binascii.Error):  # sealed by a newer balancer, which knows other claims
        raise TicketRefused(TicketFault.FORGED) from None
    return TicketClaims(place, session_id, epoch, runtime_id, incarnation, expires_ns, tenant)


def _seal(sealed: str, key: TicketKey) -> str:
    return _base64(hmac.digest(key.secret, sealed.encode(), hashlib.sha256))


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
