"""Runs in an environment that holds only `openai-agents`: its realtime runner, with a tool. Prints what came as JSON.

Arguments: the base URL (ws://HOST:PORT/v1), and a folder of raw PCM16 mono files at 24 kHz.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from agents import function_tool
from agents.realtime import RealtimeAgent, RealtimeRunner

_FRAME = 960
_asked: list[str] = []


@function_tool
def get_weather(city: str) -> str:
    """Tells the weather of a city."""
    _asked.append(city)
    return "blue sky"


async def _talk(base_url: str, sounds: dict[str, bytes]) -> dict[str, Any]:
    agent = RealtimeAgent(name="caller", instructions="Be brief.", tools=[get_weather])
    runner = RealtimeRunner(agent)
    seen: dict[str, Any] = {
        "kinds": [],
        "raw": [],
        "statuses": [],
        "transcripts": [],
        "replies": [],
        "audio_bytes": 0,
        "errors": [],
    }
    session = await runner.run(
        model_config={
            "url": f"{base_url}/realtime?model=client-tools",
            "api_key": "not-needed",
            "initial_model_settings": {"turn_detection": {"type": "server_vad", "interrupt_response": True}},
        }
    )
    waiting: asyncio.Queue[bytes] = asyncio.Queue()
    stage, chunks = "turn", 0

    def speak(name: str) -> None:
        sound = sounds[name]
        for start in range(0, len(sound), _FRAME):
            waiting.put_nowait(sound[start : start + _FRAME])

    async def microphone() -> None:
        while True:
            await session.send_audio(bytes(_FRAME) if waiting.empty() else waiting.get_nowait())
            await asyncio.sleep(0.019)

    async with session:
        speak("greeting")
        async with asyncio.TaskGroup() as group:
            speaking = group.create_task(microphone())
            async for event in session:
                if event.type not in seen["kinds"]:
                    seen["kinds"].append(event.type)
                if event.type == "audio":
                    seen["audio_bytes"] += len(event.audio.data)
                    chunks += 1
                    if stage == "story" and chunks == 20:
                        stage = "barge-in"
                        speak("interruption")
                elif event.type == "error":
                    seen["errors"].append(str(event.error)[:500])
                    break
                elif event.type == "raw_model_event" and event.data.type == "raw_server_event":
                    raw = event.data.data
                    if raw["type"] == "conversation.item.input_audio_transcription.completed":
                        seen["transcripts"].append(raw["transcript"])
                    elif raw["type"] == "response.output_audio_transcript.done":
                        seen["replies"].append(raw["transcript"])
                    elif raw["type"] in ("conversation.item.truncated", "conversation.item.retrieved"):
                        seen["raw"].append(raw["type"])
                    elif raw["type"] == "response.done":
                        status = raw["response"]["status"]
                        seen["statuses"].append(status)
                        is_call = any(item["type"] == "function_call" for item in raw["response"]["output"])
                        if stage == "turn":
                            stage = "tool"
                            speak("weather")
                        elif stage == "tool" and not is_call:
                            stage, chunks = "story", 0
                            speak("story")
                        elif stage == "barge-in" and status == "cancelled":
                            stage = "after"
                        elif stage == "after" and status == "completed":
                            break
            speaking.cancel()
    seen["tool"] = {"name": "get_weather", "arguments": {"city": _asked[0] if _asked else ""}}
    return seen


if __name__ == "__main__":
    url, folder = sys.argv[1:]
    recordings = {file.stem: file.read_bytes() for file in Path(folder).glob("*.raw")}
    json.dump(asyncio.run(_talk(url, recordings)), sys.stdout)
