"""Changing the policy while calls go on."""

from __future__ import annotations

import anyio
import httpx
import pytest
from websockets.asyncio.client import connect

from balancer.dashboard.operator_app import operator_app
from balancer.placement.reservation import Door
from balancer.routing.policies import POLICIES
from balancer.routing.request import PlacementRequest
from tests.balancer.support.fake_runtime import FakeRuntime
from tests.balancer.support.running import Running, running, until

pytestmark = pytest.mark.anyio


def operators(service: Running) -> httpx.AsyncClient:
    balancer = service.balancer
    app = operator_app(balancer.documents, balancer.clock, balancer.metrics.render, balancer.controls)
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://operator")


async def test_the_next_decision_uses_it_and_nothing_else_notices() -> None:
    runtime = FakeRuntime("r1")
    async with running() as service, runtime.listening(), runtime.enrolling(service.control), operators(service) as http:
        placer = service.balancer.placer
        await until(lambda: service.balancer.fleet.reports.taken >= 1)
        async with connect(service.url + "?session_id=live") as caller:
            await until(lambda: service.balancer.fleet.books.active == 1)
            runtime.stays_silent = True  # until its answer is wanted
            placed: list[str] = []

            async def place() -> None:
                placed.append((await placer.place(PlacementRequest("on-its-way"), Door.RELAY)).reason)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(place)
                await until(lambda: len(runtime.reserved) == 2)
                for name in (*POLICIES, "random"):
                    answer = await http.post("/v1/policy", json={"policy": name})
                    assert answer.status_code == 200, answer.text
                    assert answer.json()["policy"] == name
                    assert (await http.get("/v1/fleet")).json()["balancer"]["policy"] == name
                assert service.balancer.fleet.view.row(0).in_flight == 1
                runtime.stays_silent = False
                runtime.answer_now.set()
            assert placed[0].startswith("drawn by its room below the common level")  # decided before the change
            await caller.send("still there")
            assert await caller.recv() == "still there"
            next_one = await placer.place(PlacementRequest("next"), Door.RELAY)
            assert next_one.reason.startswith("drawn by chance")
            record = (await http.get("/v1/decisions?n=2")).json()["decisions"]
            assert [each["policy"] for each in record] == ["random", "session_aware"]
            books = service.balancer.fleet.books
            assert (books.active, books.totals.ended.total()) == (1, 0)
        assert "policy changed" in service.log.getvalue()


async def test_a_bad_wish_is_answered_with_what_is_allowed_and_changes_nothing() -> None:
    async with running() as service, operators(service) as http:
        unknown = await http.post("/v1/policy", json={"policy": "magic"})
        assert unknown.status_code == 400
        assert unknown.json()["error"]["code"] == "unknown_policy"
        assert unknown.json()["error"]["allowed"] == list(POLICIES)
        for body in (b"", b"{", b"[]", b'{"policy": 3}', b'{"name": "random"}', b'{"policy": "random", "more": 1}', b"[" * 4000):
            answer = await http.post("/v1/policy", content=body, headers={"content-type": "application/json"})
            assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_json"), body[:20]
        plain = await http.post("/v1/policy", content=b'{"policy": "random"}', headers={"content-type": "text/plain"})
        assert plain.status_code == 415  # what a page of another site could send
        assert (await http.post("/v1/policy", json={"policy": "x" * 5000})).status_code == 413
        assert (await http.get("/v1/policy")).status_code == 405
        assert (await http.get("/v1/fleet")).json()["balancer"]["policy"] == "session_aware"
