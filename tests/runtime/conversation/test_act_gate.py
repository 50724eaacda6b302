"""No tool begins while a session is handed over, and those that run are waited for."""

from __future__ import annotations

import anyio
import pytest

from runtime.conversation.act_gate import ActGate

pytestmark = pytest.mark.anyio


async def test_a_shut_gate_lets_nobody_in_and_waits_for_who_is_inside() -> None:
    gate, may_end = ActGate(), anyio.Event()
    order: list[str] = []

    async def act(name: str) -> None:
        async with gate.passed():
            order.append(f"{name} begins")
            await may_end.wait()
            order.append(f"{name} ends")

    async def rest() -> None:
        await gate.rest(20)
        order.append("rests")

    async with anyio.create_task_group() as group:
        group.start_soon(act, "first")
        await anyio.wait_all_tasks_blocked()
        gate.shut()
        group.start_soon(act, "second")
        group.start_soon(rest)
        await anyio.wait_all_tasks_blocked()
        assert order == ["first begins"]
        may_end.set()
        await anyio.wait_all_tasks_blocked()
        assert order == ["first begins", "first ends", "rests"]
        gate.open()
    assert order[-2:] == ["second begins", "second ends"]


async def test_it_waits_for_no_longer_than_it_is_told() -> None:
    gate = ActGate()
    async with anyio.create_task_group() as group:

        async def act() -> None:
            async with gate.passed():
                await anyio.sleep_forever()

        group.start_soon(act)
        await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(20):
            await gate.rest(0.0)
        assert gate.running == 1
        group.cancel_scope.cancel()
    assert gate.running == 0
