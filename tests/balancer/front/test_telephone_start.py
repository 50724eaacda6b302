"""What a telephone stream needs, from its first messages. What is wrong with it is left to the runtime."""

from __future__ import annotations

import json

import pytest

from balancer.front.responses import HttpError
from balancer.front.telephone_start import TelephoneStart, start_among
from tests.support.twilio import start_message

_CONNECTED = b'{"event": "connected", "protocol": "Call", "version": "1.0.0"}'


def _start(**parameters: str) -> bytes:
    return start_message("MZ1", "CA1", parameters).encode()


def test_needs_stand_among_the_parameters() -> None:
    assert start_among([]) is None
    assert start_among([_CONNECTED]) is None
    start = start_among([_CONNECTED, _start(table="7", switchboard_region="eu", switchboard_priority="high"), b"later"])
    assert start == TelephoneStart("CA1", {"region": "eu", "priority": "high"})
    assert start_among([_start()]) == TelephoneStart("CA1")


@pytest.mark.parametrize("name", ["switchboard_agent", "switchboard_session_id", "switchboard_", "switchboard_regoin"])
def test_a_need_that_there_is_not_is_refused_by_name(name: str) -> None:
    with pytest.raises(HttpError, match=rf"{name}'; allowed: switchboard_abilities, switchboard_region") as refused:
        start_among([_start(**{name: "x"})])
    assert refused.value.status == 400


@pytest.mark.parametrize(
    "messages",
    [
        [b"no json"],
        [b"\xff\xfe"],
        [b"[" * 100_000],
        [b"[]"],
        [b'{"event": "media"}'],
        [b'{"event": "start"}'],
        [b'{"event": "start", "start": {"customParameters": [], "callSid": 7}}'],
        [_CONNECTED] * 4,
    ],
)
def test_what_does_not_begin_as_it_should_is_the_runtimes_to_refuse(messages: list[bytes]) -> None:
    assert start_among(messages) == TelephoneStart()


def test_a_call_id_is_bounded() -> None:
    start = {"event": "start", "start": {"callSid": "C" * 1000}}
    assert start_among([json.dumps(start).encode()]) == TelephoneStart("C" * 128)
