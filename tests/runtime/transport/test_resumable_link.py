"""A session that its caller comes back to: one connection at a time, and none is forgotten."""

from __future__ import annotations

import anyio
import pytest

from protos.switchboard.v1 import voice_pb2 as pb
from runtime.dialogue.agent_events import SessionOpened
from runtime.dialogue.session_settings import SessionSettings
from runtime.primitives.reasons import EndReason
from runtime.transport.resumable_link import ResumableLink, ResumeRule

pytestmark = pytest.mark.anyio


class _Line:
    """A connection whose caller says nothing; `is_stuck`: and does not read."""

    def __init__(self, *, is_stuck: bool = False) -> None:
        self._is_stuck = is_stuck

    async def receive(self) -> pb.ConverseRequest | None:
        await anyio.sleep_forever()
        return None

    async def send(self, response: pb.ConverseResponse) -> None:
        if self._is_stuck:
            await anyio.sleep_forever()


async def test_of_connections_that_come_back_together_the_last_one_serves_and_the_others_are_let_go() -> None:  # requirement C4
    settings = SessionSettings("a")
    link = ResumableLink(settings, ResumeRule(30, 10, 1 << 20), lambda: "t", lambda: True, lambda: None)
    let_go: list[str] = []

    async def carry(name: str, line: _Line) -> None:
        await link.carry(line)
        let_go.append(name)

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(carry, "old", _Line(is_stuck=True))
            await anyio.wait_all_tasks_blocked()
            group.start_soon(link.send, link.encode(SessionOpened("s", 1, "r", settings)))  # the old one is in the midst of it
            await anyio.wait_all_tasks_blocked()
            group.start_soon(carry, "first back", _Line())
            group.start_soon(carry, "second back", _Line())
            await anyio.wait_all_tasks_blocked()
            assert sorted(let_go) == ["first back", "old"]
            link.end(EndReason.CLOSED_BY_CALLER)
    assert let_go[-1] == "second back"
