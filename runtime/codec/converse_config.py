"""The configuration that opens a call in our own messages, and what breaks their contract."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Literal, TypeAlias

from protos.switchboard.v1 import voice_pb2 as pb
from runtime.dialogue.session_settings import (
    AudioEncoding,
    AudioFormat,
    ClientTool,
    OutOfRange,
    ServerVad,
    SessionSettings,
)

__all__ = ["LONGEST_TEXT", "BrokenContract", "format_from", "format_to", "settings_from"]

LONGEST_TEXT: Final = 16 * 1024
_MOST_TOOLS: Final = 128
_LONGEST_TOOLS: Final = 128 * 1024
_TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_VadField: TypeAlias = Literal[
    "threshold",
    "prefix_padding_ms",
    "silence_duration_ms",
    "creates_response",
    "interrupts_response",
    "adapts",
    "idle_timeout_ms",
]
_NUMBERS: Final[Mapping[AudioEncoding, pb.AudioEncoding.ValueType]] = {
    AudioEncoding.PCM16: pb.AUDIO_ENCODING_PCM16,
    AudioEncoding.MULAW: pb.AUDIO_ENCODING_MULAW,
    AudioEncoding.ALAW: pb.AUDIO_ENCODING_ALAW,
}
_ENCODINGS: Final[Mapping[int, AudioEncoding]] = {number: encoding for encoding, number in _NUMBERS.items()}


_VAD_FIELDS: Final[Mapping[_VadField, str]] = {
    "threshold": "threshold",
    "prefix_padding_ms": "prefix_padding_ms",
    "silence_duration_ms": "silence_duration_ms",
    "creates_response": "creates_response",
    "interrupts_response": "interrupts_response",
    "adapts": "is_adaptive",
    "idle_timeout_ms": "idle_timeout_ms",
}


class BrokenContract(ValueError):
    """The peer broke the message contract; the session cannot go on. The text names the field and what is allowed."""


def settings_from(config: pb.SessionConfig, default_agent: str) -> SessionSettings:
    """The settings that a `SessionConfig` asks for. Raises BrokenContract."""
    if not config.HasField("input_format"):
        raise BrokenContract("config.input_format is missing; it names encoding and sample_rate_hz")
    input_format = format_from(config.input_format, "config.input_format")
    output_format = input_format
    if config.HasField("output_format"):
        output_format = format_from(config.output_format, "config.output_format")
    if len(config.metadata) > 32 or any(len(key) + len(value) > 1024 for key, value in config.metadata.items()):
        raise BrokenContract("config.metadata; allowed: at most 32 entries of at most 1 KiB")
    if len(config.instructions) > LONGEST_TEXT:
        raise BrokenContract(f"config.instructions; allowed: at most {LONGEST_TEXT} characters")
    return SessionSettings(
        agent=config.agent or default_agent,
        input_format=input_format,
        output_format=output_format,
        turn_detection=_turn_detection(config),
        instructions=config.instructions,
        speaks=not config.text_only,
        wants_partials=config.partial_transcripts,
        tools=_tools(config),
        metadata=dict(config.metadata),
    )


def _turn_detection(config: pb.SessionConfig) -> ServerVad | None:
    wanted = config.turn_detection
    if wanted.off:
        return None

    given = {theirs: getattr(wanted, ours) for ours, theirs in _VAD_FIELDS.items() if wanted.HasField(ours)}
    try:
        return replace(ServerVad(), **given)
    except OutOfRange as error:
        raise BrokenContract(f"config.turn_detection.{error}") from None


def _tools(config: pb.SessionConfig) -> tuple[ClientTool, ...]:
    if len(config.tools) > _MOST_TOOLS:
        raise BrokenContract(f"config.tools has {len(config.tools)} entries; allowed: at most {_MOST_TOOLS}")
    tools: dict[str, ClientTool] = {}
    for position, tool in enumerate(config.tools):
        path = f"config.tools[{position}]"
        if not _TOOL_NAME.fullmatch(tool.name) or tool.name in tools:
            raise BrokenContract(f"{path}.name; allowed: 1 to 64 characters of A-Z a-z 0-9 _ -, no other tool's")
        try:
            is_object = isinstance(json.loads(tool.parameters_json or "{}"), dict)
        except (ValueError, RecursionError):
            is_object = False
        if not is_object:
            raise BrokenContract(f"{path}.parameters_json; allowed: a JSON schema object, or nothing")
        tools[tool.name] = ClientTool(tool.name, tool.description, tool.parameters_json or "{}")
    if sum(len(tool.description) + len(tool.parameters_json) for tool in tools.values()) > _LONGEST_TOOLS:
        raise BrokenContract(f"config.tools; allowed: at most {_LONGEST_TOOLS} characters of descriptions and schemas")
    return tuple(tools.values())


def format_from(message: pb.AudioFormat, path: str) -> AudioFormat:
    """Raises BrokenContract, which names what is allowed."""
    encoding = _ENCODINGS.get(message.encoding)
    if encoding is None:
        raise BrokenContract(f"{path}.encoding is {message.encoding}; allowed: PCM16, MULAW, ALAW")
    try:
        return AudioFormat(encoding, message.sample_rate_hz)
    except ValueError as error:
        raise BrokenContract(f"{path}: {error}") from None


def format_to(audio_format: AudioFormat) -> pb.AudioFormat:
    return pb.AudioFormat(encoding=_NUMBERS[audio_format.encoding], sample_rate_hz=audio_format.sample_rate_hz)
