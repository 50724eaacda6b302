"""What one call brought: a recording is spoken, the agent's turns are collected, and how long each answer took.

The true end of the speech is known to the speaker, who sent the samples; the latency of a reply runs from the moment at which
the last voiced sample was sent.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
import numpy as np
from numpy.typing import NDArray

from clients.realtime import RATE_HZ, Call, CallFailed

__all__ = ["CallResult", "Happening", "ToolUse", "last_voiced_sample", "speak_and_listen"]

Happening = Callable[[str, str], None]
"""Told what happens, as it does: a short kind (heard, tool, says, ...) and a text."""

_FRAME: Final = RATE_HZ // 100
_QUIET_RATIO: Final = 0.04
_QUIET_FLOOR: Final = 120.0


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A tool that the agent ran; `arguments` and `result` are JSON values."""

    name: str
    arguments: Any
    result: Any


@dataclass(slots=True)
class CallResult:
    """What was said on both sides.

    Attributes:
        transcript: the caller's turns as the server understood them, joined.
        reply_text: the last complete reply.
        reply_samples: that reply's audio at `RATE_HZ`.
        agent_samples: all audio of the agent, in order.
        turn_latency_ms: last voiced sample sent to first audio of the last reply; -1 where there was none.
    """

    session_id: str = ""
    runtime_id: str = ""
    transcript: str = ""
    reply_text: str = ""
    reply_samples: NDArray[np.int16] = field(default_factory=lambda: np.zeros(0, np.int16))
    agent_samples: NDArray[np.int16] = field(default_factory=lambda: np.zeros(0, np.int16))
    turn_latency_ms: float = -1.0
    replies: int = 0
    interrupted_replies: int = 0
    tools: list[ToolUse] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def reply_s(self) -> float:
        return len(self.reply_samples) / RATE_HZ


def last_voiced_sample(samples: NDArray[np.int16]) -> int:
    """One past the last sample of the last 10 ms frame that is louder than 4 % of the loudest frame (root mean square).

    Measured on the recording alone, so that the server cannot flatter its own latency.
    """
    whole = samples[: len(samples) - len(samples) % _FRAME].astype(np.float64).reshape(-1, _FRAME)
    if not len(whole):
        return len(samples)
    loudness = np.sqrt((whole**2).mean(axis=1))
    loud = np.flatnonzero(loudness > max(_QUIET_FLOOR, _QUIET_RATIO * float(loudness.max())))
    return (int(loud[-1]) + 1) * _FRAME if len(loud) else len(samples)


class _Listener:
    """Follows one call's events and keeps what they say."""

    def __init__(self, result: CallResult, told: Happening) -> None:
        self.result = result
        self.voiced_until_s = float("inf")
        self.answered = anyio.Event()
        self._told = told
        self._turns: dict[str, str] = {}
        self._pending = 0
        self._is_speaking = False
        self._audio: list[bytes] = []
        self._all_audio: list[bytes] = []

    def hear(self, event: dict[str, Any]) -> None:
        kind = event["type"]
        match kind:
            case "input_audio_buffer.speech_started":
                self._is_speaking = True
                self._told("hears", f"speech from {event['audio_start_ms'] / 1000:.2f} s")
            case "input_audio_buffer.committed":
                self._is_speaking = False
                self._pending += 1
                self._turns[event["item_id"]] = ""
            case "conversation.item.deleted":
                self._pending -= 1
                self._turns.pop(event["item_id"], None)
            case "conversation.item.input_audio_transcription.completed":
                self._turns[event["item_id"]] = event["transcript"]
                self.result.transcript = " ".join(text for text in self._turns.values() if text)
                self._told("heard", event["transcript"])
            case "response.created":
                self._pending = 0
                self._audio = []
            case "response.output_audio.delta":
                self._add_audio(b64decode(event["delta"]))
            case "response.output_item.done" if event["item"]["type"] == "mcp_call":
                self._add_tool(event["item"])
            case "response.done":
                self._reply_done(event["response"])
            case "error":
                self.result.errors.append(f"{event['error']['code']}: {event['error']['message']}")
                self._told("error", self.result.errors[-1])
            case _:
                pass

    def _add_audio(self, pcm: bytes) -> None:
        if not self._audio:
            latency_ms = (anyio.current_time() - self.voiced_until_s) * 1000
            self.result.turn_latency_ms = latency_ms if latency_ms > 0 else -1.0
            self._told("answers", f"first audio {latency_ms:.0f} ms after the caller's last word" if latency_ms > 0 else "early")
        self._audio.append(pcm)
        self._all_audio.append(pcm)

    def _add_tool(self, item: dict[str, Any]) -> None:
        result = json.loads(item["output"]) if item["output"] else item["error"]
        tool = ToolUse(item["name"], json.loads(item["arguments"]), result)
        self.result.tools.append(tool)
        self._told("tool", f"{tool.name}({item['arguments']})")

    def _reply_done(self, response: dict[str, Any]) -> None:
        self.result.agent_samples = np.frombuffer(b"".join(self._all_audio), "<i2").astype(np.int16)
        if response["status"] != "completed":
            self.result.interrupted_replies += 1
            self._told("stops", f"the reply was {response['status']}")
            return
        self.result.replies += 1
        parts = [part for item in response["output"] if item["type"] == "message" for part in item["content"]]
        self.result.reply_text = " ".join(part["transcript"] for part in parts)
        self.result.reply_samples = np.frombuffer(b"".join(self._audio), "<i2").astype(np.int16)
        self._told("says", self.result.reply_text)
        if anyio.current_time() > self.voiced_until_s and not self._pending and not self._is_speaking:
            self.answered.set()


async def speak_and_listen(
    call: Call, samples: NDArray[np.int16], *, answer_within_s: float, told: Happening = lambda _, __: None
) -> CallResult:
    """Speaks a recording at real-time pace, stays on the line, and returns when the agent has answered all of it.

    Raises CallFailed where no complete answer came within `answer_within_s` after the last word.
    """
    result = CallResult(call.session_id, call.runtime_id)
    listener = _Listener(result, told)
    voiced_s = last_voiced_sample(samples) / RATE_HZ

    async def listen() -> None:
        async for event in call.events():
            listener.hear(event)
        raise CallFailed("the server ended the call before it had answered")

    async def speak() -> None:
        listener.voiced_until_s = anyio.current_time() + voiced_s
        await call.speak(samples)
        await call.stay_silent()

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(listen)
            group.start_soon(speak)
            with anyio.move_on_after(len(samples) / RATE_HZ + answer_within_s):
                await listener.answered.wait()
            group.cancel_scope.cancel()
    except* CallFailed as failures:
        raise CallFailed(str(failures.exceptions[0])) from failures
    if not listener.answered.is_set():
        raise CallFailed(f"no complete answer within {answer_within_s:g} s after the recording's end")
    return result
