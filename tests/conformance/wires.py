"""The wires that every conversation runs on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from tests.conformance.binary_wire import binary
from tests.conformance.callers import TELLS_ALL, Caller
from tests.conformance.grpc_wire import over_grpc
from tests.conformance.realtime_wire import BETA_TELLS, REALTIME_TELLS, realtime, realtime_beta
from tests.conformance.twilio_wire import TWILIO_TELLS, twilio

__all__ = ["TELLS", "WIRES"]

WIRES: dict[str, Callable[..., AbstractAsyncContextManager[Caller]]] = {
    "realtime": realtime,
    "realtime-beta": realtime_beta,
    "grpc": over_grpc,
    "binary": binary,
    "twilio": twilio,
}
TELLS = dict.fromkeys(WIRES, TELLS_ALL) | {"realtime": REALTIME_TELLS, "realtime-beta": BETA_TELLS, "twilio": TWILIO_TELLS}
"""What each can tell a caller."""
