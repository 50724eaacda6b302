"""Runs in an environment that holds only `pipecat-ai`: its OpenAI realtime service in a pipeline of its own. Prints JSON.

Arguments: the base URL (ws://HOST:PORT/v1), and a folder of raw PCM16 mono files at 24 kHz.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from loguru import logger
from pipecat.adapters.schemas.function_schema import FunctionSchema
from pipecat.adapters.schemas.tools_schema import ToolsSchema
from pipecat.frames.frames import (
    BotStoppedSpeakingFrame,
    EndFrame,
    ErrorFrame,
    InputAudioRawFrame,
    InterruptionFrame,
    LLMRunFrame,
    TranscriptionFrame,
    TTSAudioRawFrame,
    TTSStoppedFrame,
    TTSTextFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.openai.realtime import events
from pipecat.services.openai.realtime.llm import OpenAIRealtimeLLMService
from pipecat.workers.runner import WorkerRunner

_FRAME = 960
_WEATHER = FunctionSchema(
    name="get_weather",
    description="Tells the weather of a city.",
    properties={"city": {"type": "string"}},
    required=["city"],
)


class Ear(FrameProcessor):
    """Behind the service: keeps what comes and decides what is spoken next."""

    def __init__(self, seen: dict[str, Any], speak: Any, over: asyncio.Event) -> None:
        super().__init__()
        self._seen = seen
        self._speak = speak
        self._over = over
        self.stage = "context"
        self._chunks = 0
        self._reply: list[str] = []

    async def process_frame(self, frame: Any, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, TTSAudioRawFrame):
            self._seen["audio_bytes"] += len(frame.audio)
            self._chunks += 1
            if self.stage == "story" and self._chunks == 20:
                self.stage = "barge-in"
                self._speak("interruption")
        elif isinstance(frame, TTSTextFrame):
            self._reply.append(frame.text)
        elif isinstance(frame, InterruptionFrame) and self.stage == "barge-in":
            self._seen["interrupted_after_chunks"] = self._chunks
            self.stage, self._chunks = "after", 0
            await self.broadcast_frame(BotStoppedSpeakingFrame)
        elif isinstance(frame, TTSStoppedFrame):
            self._reply_over()
            await self.broadcast_frame(BotStoppedSpeakingFrame)
        elif isinstance(frame, ErrorFrame):
            self._seen["errors"].append(frame.error[:500])
            self._over.set()
        await self.push_frame(frame, direction)

    def _reply_over(self) -> None:
        text, self._reply, chunks = "".join(self._reply), [], self._chunks
        self._chunks = 0
        self._seen["replies"].append(text)
        if self.stage == "context":
            self.stage = "turn"
            self._speak("greeting")
        elif self.stage == "turn":
            self.stage = "tool"
            self._speak("weather")
        elif self.stage == "tool" and self._seen["tool"] and "told" in text:
            self.stage, self._chunks = "story", 0
            self._speak("story")
        elif self.stage == "after" and chunks:
            self._over.set()


class Upstream(FrameProcessor):
    """Before the service: keeps the transcripts, which go upstream, and the errors."""

    def __init__(self, seen: dict[str, Any], over: asyncio.Event) -> None:
        super().__init__()
        self._seen = seen
        self._over = over

    async def process_frame(self, frame: Any, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, TranscriptionFrame):
            self._seen["transcripts"].append(frame.text)
        elif isinstance(frame, ErrorFrame):
            self._seen["errors"].append(frame.error[:500])
            self._over.set()
        await self.push_frame(frame, direction)


async def _talk(base_url: str, sounds: dict[str, bytes]) -> dict[str, Any]:
    seen: dict[str, Any] = {"transcripts": [], "replies": [], "audio_bytes": 0, "errors": [], "tool": {}}
    waiting: asyncio.Queue[bytes] = asyncio.Queue()
    over = asyncio.Event()

    def speak(name: str) -> None:
        sound = sounds[name]
        for start in range(0, len(sound), _FRAME):
            waiting.put_nowait(sound[start : start + _FRAME])

    async def get_weather(call: Any) -> None:
        seen["tool"] = {"name": call.function_name, "arguments": dict(call.arguments)}
        await call.result_callback({"sky": "blue"})

    service = OpenAIRealtimeLLMService(
        api_key="not-needed",
        base_url=f"{base_url}/realtime",
        settings=OpenAIRealtimeLLMService.Settings(
            model="client-tools",
            session_properties=events.SessionProperties(
                audio=events.AudioConfiguration(
                    input=events.AudioInput(turn_detection=events.TurnDetection(silence_duration_ms=500))
                )
            ),
        ),
    )
    service.register_function("get_weather", get_weather)
    context = LLMContext([{"role": "user", "content": "good morning"}], tools=ToolsSchema(standard_tools=[_WEATHER]))
    pair = LLMContextAggregatorPair(context)
    ear = Ear(seen, speak, over)
    pipeline = Pipeline([pair.user(), Upstream(seen, over), service, ear, pair.assistant()])
    worker = PipelineWorker(pipeline, params=PipelineParams(audio_in_sample_rate=24_000, audio_out_sample_rate=24_000))

    async def microphone() -> None:
        await worker.queue_frames([LLMRunFrame()])
        while not over.is_set():
            frame = bytes(_FRAME) if waiting.empty() else waiting.get_nowait()
            await worker.queue_frames([InputAudioRawFrame(audio=frame, sample_rate=24_000, num_channels=1)])
            await asyncio.sleep(0.019)
        await worker.queue_frames([EndFrame()])

    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    try:
        async with asyncio.timeout(120), asyncio.TaskGroup() as group:
            group.create_task(runner.run())
            group.create_task(microphone())
    except TimeoutError:
        sys.exit(f"no end within 120 s; at the stage {ear.stage!r}; so far: {json.dumps(seen)}")
    return seen


if __name__ == "__main__":
    logger.remove()
    logger.add(sys.stderr, level="WARNING")
    url, folder = sys.argv[1:]
    recordings = {file.stem: file.read_bytes() for file in Path(folder).glob("*.raw")}
    json.dump(asyncio.run(_talk(url, recordings)), sys.stdout)
