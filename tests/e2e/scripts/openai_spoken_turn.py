"""Runs in an environment that holds only the `openai` SDK: one spoken turn through the balancer. Prints what came as JSON.

Arguments: the base URL (ws://HOST:PORT/v1) and a file with raw PCM16 mono at 24 kHz.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI

_FRAME_BYTES = 960


async def _turn(base_url: str, pcm: bytes) -> dict[str, Any]:
    client = AsyncOpenAI(api_key="not-needed", websocket_base_url=base_url)
    seen: dict[str, Any] = {"kinds": [], "audio_bytes": 0, "transcript": "", "reply": "", "status": ""}
    async with client.realtime.connect(model="front-desk") as connection:
        await connection.session.update(
            session={"type": "realtime", "audio": {"input": {"turn_detection": {"type": "server_vad"}}}}
        )

        async def speak() -> None:
            silence = bytes(_FRAME_BYTES)
            frames = [pcm[start : start + _FRAME_BYTES] for start in range(0, len(pcm), _FRAME_BYTES)]
            for frame in frames + [silence] * 3000:
                await connection.input_audio_buffer.append(audio=base64.b64encode(frame).decode())
                await asyncio.sleep(0.018)

        async with asyncio.TaskGroup() as group:
            speaking = group.create_task(speak())
            async for event in connection:
                if event.type not in seen["kinds"]:
                    seen["kinds"].append(event.type)
                if event.type == "response.output_audio.delta":
                    seen["audio_bytes"] += len(base64.b64decode(event.delta))
                elif event.type == "conversation.item.input_audio_transcription.completed":
                    seen["transcript"] = event.transcript
                elif event.type == "response.output_audio_transcript.done":
                    seen["reply"] = event.transcript
                elif event.type == "error":
                    seen["error"] = event.error.message
                    break
                elif event.type == "response.done":
                    seen["status"] = event.response.status
                    break
            speaking.cancel()
    return seen


if __name__ == "__main__":
    json.dump(asyncio.run(_turn(sys.argv[1], Path(sys.argv[2]).read_bytes())), sys.stdout)
