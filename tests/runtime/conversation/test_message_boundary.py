"""Who wants to look at a session is let in between two messages of its caller, however fast they come."""

from __future__ import annotations

import anyio
import pytest

from runtime.conversation.message_boundary import MessageBoundary

pytestmark = pytest.mark.anyio


async def test_a_look_waits_for_the_message_and_goes_before_the_next() -> None:
    seen: list[int] = []
    obeyed = 0
    boundary = MessageBoundary()

    def take() -> None:
        seen.append(obeyed)

    async with anyio.create_task_group() as group:
        boundary.enter()
        group.start_soon(boundary.look, take)
        await anyio.wait_all_tasks_blocked()
        assert not seen
        obeyed = 1
        boundary.leave()
        boundary.enter()  # in the same step: a caller who sends without a pause
        obeyed = 2
    assert seen == [1]
    boundary.leave()
    await boundary.look(take)
    assert seen == [1, 2]


async def test_a_look_that_was_cancelled_is_not_taken() -> None:
    seen: list[None] = []
    boundary = MessageBoundary()
    boundary.enter()
    with anyio.move_on_after(0):
        await boundary.look(lambda: seen.append(None))
    boundary.leave()
    assert not seen
