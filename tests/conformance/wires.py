"""The wires that every conversation runs on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from tests.conformance.binary_wire import binary
from tests.conformance.callers import Caller
from tests.conformance.grpc_wire import over_grpc
from tests.conformance.realtime_wire import realtime
from tests.conformance.twilio_wire import twilio

__all__ = ["WIRES"]

WIRES: dict[str, Callable[..., AbstractAsyncContextManager[Caller]]] = {
    "realtime": realtime,
    "grpc": over_grpc,
    "binary": binary,
    "twilio": twilio,
}
