"""Runs in an environment that holds only the `openai` SDK, which carries the calls as it is. Argument: ws://HOST:PORT/v1."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from calls_by_lines import say, serve
from openai import AsyncOpenAI, OpenAIError
from websockets.exceptions import ConnectionClosed

_AGENT = "bookkeeper"


async def _run(base_url: str) -> None:
    client = AsyncOpenAI(api_key="not-needed", websocket_base_url=base_url)

    async def carry(call: str, events: asyncio.Queue[Any]) -> str:
        why = "the server closed the call"
        try:
            async with (
                client.realtime.connect(model=_AGENT, extra_query={"session_id": call}) as connection,
                asyncio.TaskGroup() as group,
            ):

                async def send() -> None:
                    while True:
                        await connection.send(await events.get())

                sending = group.create_task(send())
                async for event in connection:
                    say(call, event=event.to_dict())
                sending.cancel()
        except* (OpenAIError, ConnectionClosed, OSError) as failed:
            why = "; ".join(f"{type(error).__name__}: {error}" for error in failed.exceptions)
        return why

    await serve(carry)


if __name__ == "__main__":
    asyncio.run(_run(sys.argv[1]))
