"""Health, readiness, metrics and the snapshot beside the calls, on a real runtime."""

from __future__ import annotations

import httpx
import pytest

from tests.conformance.wires import WIRES
from tests.support.local_runtime import local_runtime

pytestmark = pytest.mark.anyio


async def test_what_operators_ask() -> None:
    async with local_runtime() as local, httpx.AsyncClient(base_url=f"http://{local.runtime.http_address}") as http:
        assert (await http.get("/healthz")).json() == {"status": "ok", "state": "ready"}
        assert (await http.get("/readyz")).status_code == 200
        async with WIRES["realtime"](local) as caller:
            await caller.type("hello")
            await caller.until("reply_done")
            load = (await http.get("/v1/load")).json()
            assert (load["active"], load["reserved"], load["hard_limit"]) == (1, 0, 32)
            metrics = (await http.get("/metrics")).text
            assert "switchboard_runtime_sessions_active 1.0" in metrics
            assert 'switchboard_runtime_turn_latency_seconds_count{stage="first_audio"} 1.0' in metrics
        assert (await http.get("/nowhere")).status_code == 404
