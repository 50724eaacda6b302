"""A caller that does not read, on every WebSocket wire. (gRPC's is in tests/integration/test_bad_input.py.)"""

from __future__ import annotations

import pytest

from runtime.primitives.reasons import EndReason
from tests.conformance.wires import WIRES
from tests.support.local_runtime import local_runtime, until

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("wire", sorted(set(WIRES) - {"grpc"}))
async def test_a_caller_who_never_reads_loses_its_call_and_holds_little_until_then(wire: str) -> None:  # requirement V5, bug R56
    async with local_runtime(lead_ms=600_000, slow_caller_s=0.3) as local:
        local.hears.answer = "a long story"
        most = 0
        async with WIRES[wire](local, reads=False) as caller:
            await caller.type("a long story")

            def is_over() -> bool:
                nonlocal most
                most = max(most, local.parts.calls.waiting_events)
                return bool(local.ended)

            await until(is_over)
        assert dict(local.ended) == {EndReason.SLOW_CALLER: 1}
        assert 0 < most < 200, "events; of tens of thousands that the story has"
