"""Who waits for a fact sees it however it came about, and whenever the waiting began."""

from __future__ import annotations

import anyio
import pytest

from runtime.app.changes import Changes


@pytest.mark.anyio
async def test_everyone_who_waits_looks_again_after_every_change() -> None:
    changes = Changes()
    facts: set[str] = set()
    seen: list[str] = []

    async def wait_for(name: str) -> None:
        await changes.until(lambda: name in facts)
        seen.append(name)

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            for name in ("b", "a", "a"):
                group.start_soon(wait_for, name)
            for name in ("a", "b"):
                await anyio.lowlevel.checkpoint()
                facts.add(name)
                changes.tell()
        await changes.until(lambda: "a" in facts)
    assert seen == ["a", "a", "b"]
