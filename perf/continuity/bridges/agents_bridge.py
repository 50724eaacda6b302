"""Runs in an environment that holds only `openai-agents`, whose realtime runner carries the calls. Argument: ws://HOST:PORT/v1.

What the runner does by itself (its configuration, cutting off a reply when the caller speaks) it does here too.
"""

from __future__ import annotations

import asyncio
import base64
import sys
from typing import Any

from agents.realtime import RealtimeAgent, RealtimeModelSendRawMessage, RealtimeRunner
from calls_by_lines import say, serve
from websockets.exceptions import WebSocketException

_AGENT = "bookkeeper"


async def _run(base_url: str) -> None:
    async def carry(call: str, events: asyncio.Queue[Any]) -> str:
        runner = RealtimeRunner(RealtimeAgent(name="caller", instructions="Be brief."))
        why = ""
        try:
            session = await runner.run(
                model_config={
                    "url": f"{base_url}/realtime?model={_AGENT}&session_id={call}",
                    "api_key": "not-needed",
                    "initial_model_settings": {"turn_detection": {"type": "server_vad", "interrupt_response": True}},
                }
            )
            async with session, asyncio.TaskGroup() as group:
                sending = group.create_task(_send(session, events))
                why = await _listen(session, call)
                sending.cancel()
        except* (WebSocketException, OSError, RuntimeError) as failed:
            why = "; ".join(f"{type(error).__name__}: {error}" for error in failed.exceptions)
        return why

    await serve(carry)


async def _listen(session: Any, call: str) -> str:
    async for event in session:
        if event.type == "error":
            return f"error: {event.error}"[:500]
        if event.type == "raw_model_event" and event.data.type == "raw_server_event":
            say(call, event=event.data.data)
        elif event.type == "raw_model_event" and event.data.type == "connection_status" and event.data.status == "disconnected":
            break
    return "the server closed the call"


async def _send(session: Any, events: asyncio.Queue[Any]) -> None:
    while True:
        event = await events.get()
        if event["type"] == "input_audio_buffer.append":
            await session.send_audio(base64.b64decode(event["audio"]))
        else:
            others = {name: value for name, value in event.items() if name != "type"}
            await session.model.send_event(RealtimeModelSendRawMessage(message={"type": event["type"], "other_data": others}))


if __name__ == "__main__":
    asyncio.run(_run(sys.argv[1]))
