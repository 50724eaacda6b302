"""The table of ends: what a relay reads off a close is what the runtime would have said on gRPC itself."""

from __future__ import annotations

import pytest

from runtime.primitives.reasons import EndReason
from runtime.wire.close_codes import (
    GRPC_STATUS_BY_END,
    SLOW_CALLER_CLOSE,
    WEBSOCKET_CLOSE_BY_END,
    grpc_status_of_close,
)


@pytest.mark.parametrize("reason", EndReason)
def test_each_end_has_one_status_on_either_way(reason: EndReason) -> None:
    assert grpc_status_of_close(WEBSOCKET_CLOSE_BY_END[reason], reason.value) == GRPC_STATUS_BY_END[reason]


@pytest.mark.parametrize(
    ("code", "text", "status"),
    [
        (*SLOW_CALLER_CLOSE, "RESOURCE_EXHAUSTED"),
        (1008, "no configuration came; it is the first message", "DEADLINE_EXCEEDED"),
        (1002, "config came twice; it is the first message only", "INVALID_ARGUMENT"),
        (1002, "slow_caller", "INVALID_ARGUMENT"),
        (1012, "runtime lost", "UNAVAILABLE"),
        (1013, "no capacity", "RESOURCE_EXHAUSTED"),
        (1011, "a fault of ours", "INTERNAL"),
        (1005, "", "INTERNAL"),
        (0, "", "INTERNAL"),
    ],
)
def test_what_a_close_says_in_words_goes_by_its_code(code: int, text: str, status: str) -> None:
    assert grpc_status_of_close(code, text) == status
