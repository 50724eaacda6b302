"""The operators' port: documents of a live fleet, metrics from the same numbers, a page without outside assets."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import AsyncIterator

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from websockets.asyncio.client import connect

from balancer.dashboard.operator_app import operator_app
from balancer.dashboard.page import PAGE
from balancer.placement.errors import PlacementRefused
from balancer.placement.reservation import Door
from balancer.routing.request import PlacementRequest
from balancer.telemetry.metrics import FRONT_GAUGES, METRICS
from tests.balancer.support.fake_runtime import FakeRuntime
from tests.balancer.support.running import Running, running, until

pytestmark = pytest.mark.anyio


@contextlib.asynccontextmanager
async def operated(runtime: FakeRuntime) -> AsyncIterator[tuple[Running, httpx.AsyncClient]]:
    async with running() as service, runtime.listening(), runtime.enrolling(service.control):
        balancer = service.balancer
        await until(lambda: balancer.fleet.reports.taken >= 1)
        app = operator_app(balancer.documents, balancer.clock, balancer.metrics.render, balancer.controls)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://operator") as http:
            yield service, http


async def test_a_call_is_seen_everywhere() -> None:
    async with operated(FakeRuntime("r1")) as (service, http):
        async with connect(service.url + "?session_id=call-1&model=desk"):
            await until(lambda: service.balancer.fleet.books.active == 1)
            await until(lambda: service.balancer.fleet.view.row(0).active == 1)
            fleet = (await http.get("/v1/fleet")).json()
            (runtime,) = fleet["runtimes"]
            assert (runtime["runtime_id"], runtime["eligible"], runtime["active"]) == ("r1", True, 1)
            assert runtime["effective_capacity"] == 4.5  # u 0.1, T 0.8, S 2: 1 x (1 + 7/2)
            assert runtime["report_age_s"] < 2
            assert runtime["books"] == {"active": 1, "ledger_version": 1, "disagreement": 0}
            assert fleet["totals"]["active"] == fleet["books"]["active"] == fleet["books"]["started"] == 1
            assert (fleet["books"]["balanced"], fleet["books"]["attempted"], fleet["books"]["placed"]) == (True, 1, 1)
            (decision,) = (await http.get("/v1/decisions?n=5")).json()["decisions"]
            assert (decision["outcome"], decision["runtime_id"], decision["epoch"]) == ("placed", "r1", 1)
            assert decision["reason"].startswith("drawn by its room below the common level of 1 with room")
            assert decision["candidates"][0]["runtime_id"] == "r1"
            call = (await http.get("/v1/calls/call-1")).json()
            assert call["is_live"]
            assert call["legs"][0]["runtime_id"] == "r1"
            assert call["decision"]["session_id"] == "call-1"
        await until(lambda: service.balancer.fleet.books.active == 0)
        books = (await http.get("/v1/fleet")).json()["books"]
        assert books["ended"] == {"closed_by_caller": 1}
        assert books["balanced"]
        assert not (await http.get("/v1/calls/call-1")).json()["is_live"]


async def test_the_decision_log_is_exported_whole_as_json_lines() -> None:  # requirement R8
    async with operated(FakeRuntime("r1", hard_limit=500)) as (service, http):
        placer = service.balancer.placer
        for number in range(250):  # more than one chunk
            with contextlib.suppress(PlacementRefused):
                await placer.place(PlacementRequest(f"c{number}"), Door.ASSIGN)
        answer = await http.get("/v1/decisions.jsonl")
        assert answer.headers["content-type"].startswith("application/x-ndjson")
        lines = [json.loads(line) for line in answer.text.splitlines()]
        assert [each["session_id"] for each in lines] == [f"c{number}" for number in range(250)]
        newest = (await http.get("/v1/decisions?n=1")).json()["decisions"][0]
        assert {**newest, "age_s": 0} == {**lines[-1], "age_s": 0}


async def test_metrics_are_the_table_and_agree_with_the_books() -> None:
    async with operated(FakeRuntime("r1")) as (service, http):
        async with connect(service.url):
            await until(lambda: service.balancer.fleet.books.active == 1)
            text = (await http.get("/metrics")).text
        families = {family.name: family for family in text_string_to_metric_families(text)}
        declared = set(METRICS) | {f"switchboard_relay_{name}" for name in FRONT_GAUGES}
        assert {name for name in families if not name.endswith("_created")} == declared
        values = {(sample.name, *sample.labels.values()): sample.value for each in families.values() for sample in each.samples}
        assert values["switchboard_sessions_active",] == 1
        assert values["switchboard_placements_total", "placed"] == 1
        assert values["switchboard_ledger_balanced",] == 1
        assert values["switchboard_relay_relayed",] == 1
        assert values["switchboard_runtime_utilisation", "r1"] == 0.1


async def test_health_readiness_and_bad_requests() -> None:
    runtime = FakeRuntime("r1")
    async with operated(runtime) as (service, http):
        assert (await http.get("/healthz")).status_code == 200
        assert (await http.get("/readyz")).status_code == 200
        assert (await http.get("/v1/calls/nobody")).status_code == 404
        assert (await http.get("/v1/decisions?n=0")).status_code == 400
        assert (await http.get("/v1/decisions?n=x")).json()["error"]["code"] == "bad_request"
        runtime.utilisation = 0.99
        await until(lambda: service.balancer.fleet.view.row(0).overload == 2)
        assert (await http.get("/readyz")).status_code == 503
        (shown,) = (await http.get("/v1/fleet")).json()["runtimes"]
        assert (shown["eligible"], shown["reason"]) == (False, "overload")


async def test_the_page_needs_nothing_from_outside() -> None:
    async with operated(FakeRuntime("r1")) as (_, http):
        page = await http.get("/")
        assert page.text == PAGE
    assert not re.search(r"(src|href)=\"(?!data:)", PAGE)
    assert "http://" not in PAGE
    assert "https://" not in PAGE


async def test_a_runtime_is_asked_to_leave_and_a_call_to_move_only_if_they_are_there() -> None:
    runtime = FakeRuntime("r1")
    json_type = {"content-type": "application/json"}
    async with operated(runtime) as (service, http), connect(service.url + "?session_id=call-1"):
        simple = await http.post("/v1/runtimes/r1/drain")
        assert (simple.status_code, simple.json()["error"]["code"]) == (415, "unsupported_media_type")
        for unknown in ("r2", "R%201"):
            answer = await http.post(f"/v1/runtimes/{unknown}/drain", headers=json_type)
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, "unknown_runtime")
        assert runtime.asked_to_drain == 0
        assert (await http.post("/v1/runtimes/r1/drain", headers=json_type)).status_code == 202
        await until(lambda: runtime.asked_to_drain == 1)
        for body, status, words in (
            (b"", 409, "does not speak asides"), (b'{"to": "r2"}', 409, "no runtime 'r2' is enrolled"),
            (b'{"to": "R 2"}', 400, "RUNTIME_ID"), (b'{"from": "r1"}', 400, "RUNTIME_ID"), (b"{", 400, "RUNTIME_ID"),
        ):  # fmt: skip
            answer = await http.post("/v1/calls/call-1/move", content=body, headers=json_type)
            assert (answer.status_code, words in answer.json()["error"]["message"]) == (status, True)
        gone = await http.post("/v1/calls/call-2/move", headers=json_type)
        assert (gone.status_code, gone.json()["error"]["message"]) == (409, "no such call is relayed here")
        assert (await http.post("/v1/calls/call-1/move")).status_code == 415
