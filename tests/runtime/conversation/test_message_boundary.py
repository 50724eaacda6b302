"""Who wants to look at a session is let in between two messages of its caller, however fast they come."""

from __future__ import annotations

import anyio
import pytest

from runtime.conversation.message_boundary import MessageBoundary

pytestmark = pytest.mark.anyio


async def test_a_look_waits_for_the_message_and_goes_before_the_next() -> None:
    seen: list[int] = []
    obeyed = 0
    boundary = MessageBoundary(lambda: obeyed)

    async def look() -> None:
        seen.append(await boundary.look())

    async with anyio.create_task_group() as group:
        boundary.enter()
        group.start_soon(look)
        await anyio.wait_all_tasks_blocked()
        assert not seen
        obeyed = 1
        boundary.leave()
        boundary.enter()  # in the same step: a caller who sends without a pause
        obeyed = 2
    assert seen == [1]
    boundary.leave()
    await look()
    assert seen == [1, 2]


async def test_a_look_that_was_cancelled_is_not_taken() -> None:
    looks = 0

    def look() -> int:
        nonlocal looks
        looks += 1
        return looks

    boundary = MessageBoundary(look)
    boundary.enter()
    with anyio.move_on_after(0):
        await boundary.look()
    boundary.leave()
    assert looks == 0
