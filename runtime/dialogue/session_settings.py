"""What a caller may ask of a session: audio formats, turn detection, instructions. Valid from birth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

__all__ = [
    "ALLOWED_FORMATS",
    "PCM16_24K",
    "AudioEncoding",
    "AudioFormat",
    "ClientTool",
    "OutOfRange",
    "ServerVad",
    "SessionSettings",
]


class AudioEncoding(StrEnum):
    PCM16 = "pcm16"
    """Signed 16-bit little-endian."""
    MULAW = "g711_ulaw"
    ALAW = "g711_alaw"


@dataclass(frozen=True, slots=True)
class AudioFormat:
    """Mono audio on a wire. Raises ValueError, naming the allowed formats, where we do not speak it."""

    encoding: AudioEncoding
    sample_rate_hz: int

    def __post_init__(self) -> None:
        if self.sample_rate_hz not in ALLOWED_FORMATS[self.encoding]:
            allowed = ", ".join(str(rate) for rate in ALLOWED_FORMATS[self.encoding])
            raise ValueError(f"{self.encoding} at {self.sample_rate_hz} Hz; allowed rates: {allowed}")

    @property
    def bytes_per_sample(self) -> int:
        return 2 if self.encoding is AudioEncoding.PCM16 else 1

    def __str__(self) -> str:
        return f"{self.encoding} at {self.sample_rate_hz} Hz"


ALLOWED_FORMATS: Final[Mapping[AudioEncoding, tuple[int, ...]]] = {
    AudioEncoding.PCM16: (8_000, 16_000, 24_000),
    AudioEncoding.MULAW: (8_000,),
    AudioEncoding.ALAW: (8_000,),
}
PCM16_24K: Final = AudioFormat(AudioEncoding.PCM16, 24_000)


@dataclass(frozen=True, slots=True)
class ServerVad:
    """Turn detection by silence.

    Attributes:
        threshold: speech belief, 0-1, from which a frame counts as voiced.
        prefix_padding_ms: audio kept from before the onset.
        silence_duration_ms: silence after which the caller's turn is over. 500 is what the Realtime wire's clients expect.
        creates_response: whether the agent answers by itself at the end of a turn.
        interrupts_response: whether the caller's speech stops the agent.
        is_adaptive: whether that silence may follow the caller's own pauses and words (0.56 to 1.6 times as long; from 0.42 with
            an end-of-turn classifier).
        idle_timeout_ms: silence of both sides after which the agent speaks to a caller who says nothing; 0: never.
    """

    threshold: float = 0.5
    prefix_padding_ms: int = 300
    silence_duration_ms: int = 500
    creates_response: bool = True
    interrupts_response: bool = True
    is_adaptive: bool = True
    idle_timeout_ms: int = 0

    def __post_init__(self) -> None:
        _check("threshold", self.threshold, 0.05, 0.95)
        _check("prefix_padding_ms", self.prefix_padding_ms, 0, 2_000)
        _check("silence_duration_ms", self.silence_duration_ms, 100, 5_000)
        if self.idle_timeout_ms:
            _check("idle_timeout_ms", self.idle_timeout_ms, 1_000, 600_000)


class OutOfRange(ValueError):
    """A value is outside its range; the facts are attributes."""

    def __init__(self, name: str, value: float, allowed: str) -> None:
        self.name = name
        self.value = value
        self.allowed = allowed
        super().__init__(f"{name} is {value:g}; allowed: {allowed}")


def _check(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise OutOfRange(name, value, f"{low:g} to {high:g}")


@dataclass(frozen=True, slots=True)
class ClientTool:
    """A tool that the client declares and runs itself. `parameters_json`: the JSON schema of its arguments object, as text."""

    name: str
    description: str = ""
    parameters_json: str = "{}"


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """What holds for a session.

    Attributes:
        turn_detection: None: the client commits audio and asks for replies itself.
        speaks: whether the agent's text is spoken; else it leaves as text alone.
        tools: what the client can do for the agent, beside the agent's own tools.
        metadata: facts about the caller that reach the agent.
        wants_partials: whether the words of a turn are told before it is over.
    """

    agent: str
    input_format: AudioFormat = PCM16_24K
    output_format: AudioFormat = PCM16_24K
    turn_detection: ServerVad | None = field(default_factory=ServerVad)
    instructions: str = ""
    speaks: bool = True
    metadata: Mapping[str, str] = field(default_factory=dict)
    tools: tuple[ClientTool, ...] = ()
    wants_partials: bool = False
