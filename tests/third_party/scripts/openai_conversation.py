"""Runs in an environment that holds only the `openai` SDK: a spoken turn, a tool call, a barge-in, a clean end. Prints JSON.

Arguments: `sync` or `async`, the base URL (ws://HOST:PORT/v1), and a folder of raw PCM16 mono files at 24 kHz.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI, OpenAI

_FRAME = 960
_TOOL = {
    "type": "function",
    "name": "get_weather",
    "description": "Tells the weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
_SESSION: Any = {"type": "realtime", "tools": [_TOOL], "audio": {"input": {"turn_detection": {"type": "server_vad"}}}}


class Script:
    """What to say next, and what came. `speak` is called with a file's name; `send` with an event."""

    def __init__(self) -> None:
        self.seen: dict[str, Any] = {"kinds": [], "transcripts": [], "replies": [], "statuses": [], "audio_bytes": 0, "tool": {}}
        self.stage = "turn"
        self.deltas = 0
        self.item_id = ""
        self.is_over = False

    def hear(self, event: Any) -> list[tuple[str, Any]]:
        """Answers what to do: ("speak", name) or ("send", event)."""
        seen = self.seen
        if event.type not in seen["kinds"]:
            seen["kinds"].append(event.type)
        match event.type:
            case "response.output_audio.delta":
                seen["audio_bytes"] += len(base64.b64decode(event.delta))
                self.item_id = event.item_id
                self.deltas += 1
                if self.stage == "story" and self.deltas == 20:
                    self.stage = "barge-in"
                    return [("speak", "interruption")]
            case "conversation.item.input_audio_transcription.completed":
                seen["transcripts"].append(event.transcript)
            case "response.output_audio_transcript.done":
                seen["replies"].append(event.transcript)
            case "input_audio_buffer.speech_started" if self.stage == "barge-in":
                cut = {"type": "conversation.item.truncate", "item_id": self.item_id, "content_index": 0, "audio_end_ms": 300}
                return [("send", cut)]
            case "response.done":
                return self._response_done(event.response)
            case "error":
                seen["error"] = f"{event.error.code}: {event.error.message}"
                self.is_over = True
        return []

    def _response_done(self, response: Any) -> list[tuple[str, Any]]:
        self.seen["statuses"].append(response.status)
        calls = [item for item in response.output if item.type == "function_call"]
        if calls:
            call = calls[0]
            self.seen["tool"] = {"name": call.name, "arguments": json.loads(call.arguments)}
            output = {"type": "function_call_output", "call_id": call.call_id, "output": json.dumps({"sky": "blue"})}
            return [("send", {"type": "conversation.item.create", "item": output}), ("send", {"type": "response.create"})]
        match self.stage, response.status:
            case "turn", "completed":
                self.stage = "tool"
                return [("speak", "weather")]
            case "tool", "completed":
                self.stage, self.deltas = "story", 0
                return [("speak", "story")]
            case "barge-in", "cancelled":
                self.stage = "after"
            case "after", "completed":
                self.is_over = True
        return []


async def _async(base_url: str, sounds: dict[str, bytes]) -> dict[str, Any]:
    script = Script()
    waiting: asyncio.Queue[bytes] = asyncio.Queue()
    client = AsyncOpenAI(api_key="not-needed", websocket_base_url=base_url)
    async with client.realtime.connect(model="client-tools") as connection:
        await connection.session.update(session=_SESSION)

        def speak(name: str) -> None:
            sound = sounds[name]
            for start in range(0, len(sound), _FRAME):
                waiting.put_nowait(sound[start : start + _FRAME])

        async def microphone() -> None:
            while True:
                frame = bytes(_FRAME) if waiting.empty() else waiting.get_nowait()
                await connection.input_audio_buffer.append(audio=base64.b64encode(frame).decode())
                await asyncio.sleep(0.019)

        speak("greeting")
        async with asyncio.TaskGroup() as group:
            speaking = group.create_task(microphone())
            async for event in connection:
                for what, value in script.hear(event):
                    if what == "speak":
                        speak(value)
                    else:
                        await connection.send(value)
                if script.is_over:
                    break
            speaking.cancel()
    return script.seen


def _sync(base_url: str, sounds: dict[str, bytes]) -> dict[str, Any]:
    script = Script()
    waiting: list[bytes] = []
    client = OpenAI(api_key="not-needed", websocket_base_url=base_url)
    is_over = threading.Event()
    with client.realtime.connect(model="client-tools") as connection:
        connection.session.update(session=_SESSION)

        def speak(name: str) -> None:
            sound = sounds[name]
            waiting.extend(sound[start : start + _FRAME] for start in range(0, len(sound), _FRAME))

        def microphone() -> None:
            while not is_over.is_set():
                frame = waiting.pop(0) if waiting else bytes(_FRAME)
                connection.input_audio_buffer.append(audio=base64.b64encode(frame).decode())
                time.sleep(0.019)

        speak("greeting")
        speaking = threading.Thread(target=microphone)
        speaking.start()
        try:
            for event in connection:
                for what, value in script.hear(event):
                    if what == "speak":
                        speak(value)
                    else:
                        connection.send(value)
                if script.is_over:
                    break
        finally:
            is_over.set()
            speaking.join()
    return script.seen


if __name__ == "__main__":
    kind, url, folder = sys.argv[1:]
    recordings = {file.stem: file.read_bytes() for file in Path(folder).glob("*.raw")}
    json.dump(_sync(url, recordings) if kind == "sync" else asyncio.run(_async(url, recordings)), sys.stdout)
