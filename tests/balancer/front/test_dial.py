"""Which of a runtime's refusals are the caller's to hear."""

from __future__ import annotations

import json

import pytest

from balancer.front.dial import UpgradeRefused, _refusal
from balancer.front.upgrade_answer import UpgradeAnswer


def _answer(status: int, body: bytes, length: int | None = None) -> UpgradeAnswer:
    return UpgradeAnswer(status, {b"content-length": b"%d" % (len(body) if length is None else length)}, body)


def _body(code: str) -> bytes:
    return json.dumps({"error": {"code": code, "message": "why"}}).encode()


@pytest.mark.parametrize("status", [400, 403, 404])
def test_what_is_wrong_with_the_request_is_told(status: int) -> None:
    refused = _refusal(_answer(status, _body("bad_signature")))
    assert isinstance(refused, UpgradeRefused)
    assert (refused.status, refused.code, refused.message) == (status, "bad_signature", "why")


@pytest.mark.parametrize(
    "answer",
    [
        _answer(503, _body("limit")),
        _answer(403, _body("expired_ticket")),  # the balancer's own
        _answer(400, b"no JSON"),
        _answer(400, b"[]"),
        _answer(400, b'{"error": "text"}'),
        _answer(400, b"x", length=5_000),
        UpgradeAnswer(400, {}, b""),
        UpgradeAnswer(400, {b"content-length": b"-1"}, b""),
    ],
)
def test_all_else_is_tried_elsewhere(answer: UpgradeAnswer) -> None:
    refused = _refusal(answer)
    assert refused is not None
    assert not isinstance(refused, UpgradeRefused)


def test_the_rest_of_the_body_is_waited_for() -> None:
    body = _body("bad_signature")
    assert _refusal(_answer(403, body[:10], length=len(body))) is None
