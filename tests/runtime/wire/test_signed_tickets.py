"""Tickets as text: what was sealed comes back, and nothing else does."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.wire.signed_tickets import TicketClaims, TicketFault, TicketKey, TicketRefused, open_ticket, read_keys, seal_ticket

_CLAIMS = TicketClaims("place-1", "call-1", 3, "runtime-1", 1_700_000_000_000_000_000, 123_456_789, "acme")
_KEY = TicketKey("now", b"a" * 32)
_BEFORE = TicketKey("before", b"b" * 32)
_KEYS = {key.key_id: key for key in (_KEY, _BEFORE)}
_TICKET = seal_ticket(_CLAIMS, _KEY)
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."


def _assert_forged(ticket: str) -> None:
    with pytest.raises(TicketRefused) as refused:
        open_ticket(ticket, _KEYS)
    assert refused.value.why is TicketFault.FORGED


@given(
    st.builds(
        TicketClaims,
        *[st.text(max_size=64)] * 2, st.integers(1, 2**63), st.text(max_size=64), *[st.integers(0, 2**63)] * 2,
        st.text(max_size=64),
    )
)  # fmt: skip
def test_what_was_sealed_comes_back(claims: TicketClaims) -> None:
    ticket = seal_ticket(claims, _KEY)
    if len(ticket) < 1_000:  # a longer one than any of ours can be is not looked at
        assert open_ticket(ticket, _KEYS) == claims


def test_current_and_previous_keys_open_and_a_retired_one_does_not() -> None:
    for key in (_KEY, _BEFORE):
        assert open_ticket(seal_ticket(_CLAIMS, key), _KEYS) == _CLAIMS
    _assert_forged(seal_ticket(_CLAIMS, TicketKey("retired", b"c" * 32)))


@given(st.integers(0, len(_TICKET) - 1), st.sampled_from(_LETTERS))
def test_any_other_letter_anywhere_is_forged(place: int, letter: str) -> None:
    if _TICKET[place] != letter:
        _assert_forged(_TICKET[:place] + letter + _TICKET[place + 1 :])


@given(st.integers(0, len(_TICKET) - 1))
def test_a_ticket_that_is_cut_off_is_forged(length: int) -> None:
    _assert_forged(_TICKET[:length])


def test_another_text_of_the_same_seal_is_forged() -> None:
    """43 letters of base64 hold two bits more than 32 bytes: four texts have the same bytes."""
    last = _LETTERS.index(_TICKET[-1])
    twins = [_TICKET[:-1] + _LETTERS[last ^ bits] for bits in (1, 2, 3)]
    for twin in twins:
        assert base64.urlsafe_b64decode(twin[-43:] + "=") == base64.urlsafe_b64decode(_TICKET[-43:] + "=")
        _assert_forged(twin)


def _json(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


@pytest.mark.parametrize(
    "ticket",
    [
        "",
        "sb1...",
        "A" * 32,
        _TICKET + "=",
        _TICKET + " ",
        _TICKET + "\n",
        " " + _TICKET,
        _TICKET.replace("sb1.", "sb0."),
        _TICKET.replace("sb1.now.", "sb1.before."),
        _TICKET.replace("sb1.now.", "sb1.unknown."),
        ".".join((*_TICKET.split(".")[:3], "")),
        ".".join((*_TICKET.split(".")[:3], "A" * 43)),
        # JSON web tokens: without a signature, and with one of our key over their own header
        f"{_json({'alg': 'none'})}.{_json({'sid': 'call-1'})}.",
        f"{_json({'alg': 'HS256'})}.{_json({'sid': 'call-1'})}."
        + base64.urlsafe_b64encode(hmac.digest(b"a" * 32, b"x", "sha256")).rstrip(b"=").decode(),
        "sb1.now." + "A" * 100_000 + "." + "A" * 43,
    ],
)
def test_what_is_no_ticket_is_forged(ticket: str) -> None:
    _assert_forged(ticket)


def test_a_seal_made_with_a_weaker_hash_or_without_the_head_is_forged() -> None:
    sealed, _, _ = _TICKET.rpartition(".")
    claims = sealed.rpartition(".")[2]
    for made in (
        hmac.digest(_KEY.secret, sealed.encode(), hashlib.sha1).ljust(32, b"\0"),
        hmac.digest(_KEY.secret, claims.encode(), hashlib.sha256),
        hashlib.sha256(_KEY.secret + sealed.encode()).digest(),
        hmac.digest(b"", sealed.encode(), hashlib.sha256),
    ):
        _assert_forged(f"{sealed}.{base64.urlsafe_b64encode(made).rstrip(b'=').decode()}")


def test_claims_of_another_shape_are_refused_although_sealed() -> None:
    for claims in ("no json at all!!", _json(["a", "b"]) + "A" * 16, _json({"place": "a", "more": "claims"})):
        sealed = f"sb1.now.{claims}"
        seal = base64.urlsafe_b64encode(hmac.digest(_KEY.secret, sealed.encode(), hashlib.sha256)).rstrip(b"=").decode()
        _assert_forged(f"{sealed}.{seal}")


def test_each_claim_is_under_the_seal() -> None:
    others = (
        replace(_CLAIMS, place="place-2"), replace(_CLAIMS, session_id="call-2"), replace(_CLAIMS, epoch=4),
        replace(_CLAIMS, runtime_id="runtime-2"), replace(_CLAIMS, incarnation=1), replace(_CLAIMS, expires_ns=2),
        replace(_CLAIMS, tenant="other"),
    )  # fmt: skip
    seal = _TICKET.rpartition(".")[2]
    for other in others:
        _assert_forged(seal_ticket(other, _KEY).rpartition(".")[0] + "." + seal)


@pytest.mark.parametrize(
    "texts",
    [
        ["now"], ["now:short"], ["now:" + "x" * 31], ["a b:" + "x" * 32], ["now:" + "x" * 16 + " " + "x" * 16],
        ["now:" + "x" * 32, "now:" + "y" * 32], [f"key-{number}:" + "x" * 32 for number in range(9)], [":" + "x" * 32],
    ],
)  # fmt: skip
def test_keys_that_cannot_be_are_refused_without_being_shown(texts: list[str]) -> None:
    with pytest.raises(ValueError, match="ID:SECRET") as refused:
        read_keys(texts)
    assert not any(text in str(refused.value) for text in texts)


def test_a_key_does_not_show_its_secret() -> None:
    assert "aaaa" not in repr(_KEY)
