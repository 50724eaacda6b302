"""The `session` object of the OpenAI Realtime protocol (GA shape): merging a client's update, and showing what is in force."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from runtime.codec.realtime_tools import shown_tools, tools_from
from runtime.codec.realtime_values import InvalidSession, flag, number, part_of, whole
from runtime.dialogue.session_settings import (
    AudioEncoding,
    AudioFormat,
    ClientTool,
    OutOfRange,
    ServerVad,
    SessionSettings,
)

__all__ = ["LONGEST_INSTRUCTIONS", "InvalidSession", "RealtimeSession", "merged", "shown", "shown_format", "speaks_from"]

_TYPE_BY_ENCODING: Final = {
    AudioEncoding.PCM16: "audio/pcm",
    AudioEncoding.MULAW: "audio/pcmu",
    AudioEncoding.ALAW: "audio/pcma",
}
_ENCODING_BY_TYPE: Final = {name: encoding for encoding, name in _TYPE_BY_ENCODING.items()}
_PCM_RATE_HZ: Final = 24_000
"""The only PCM rate that the protocol and its clients' types know."""
LONGEST_INSTRUCTIONS: Final = 16 * 1024
_VAD_PATH: Final = "session.audio.input.turn_detection"
_DETECTORS: Final = ("server_vad", "semantic_vad")
_CHOICES: Final = ("auto", "none", "required")


@dataclass(frozen=True, slots=True)
class RealtimeSession:
    """A session as this wire sees it.

    Attributes:
        settings: what the conversation is told. Its tools are empty where `tool_choice` is none.
        declared: the client's tools, whatever may be used of them.
        tool_choice: auto or none; what else a client may wish is for the agent to decide, and shown as auto.
    """

    settings: SessionSettings
    declared: tuple[ClientTool, ...] = ()
    tool_choice: str = "auto"


def merged(session: RealtimeSession, update: Mapping[str, Any]) -> RealtimeSession:
    """The session after a client's `session.update`; what it does not mention stays, what we do not know is ignored.

    Raises InvalidSession, and then nothing of the update holds.
    """
    settings = session.settings
    if update.get("type", "realtime") != "realtime":
        raise InvalidSession("session.type", update["type"], "realtime")
    changes: dict[str, Any] = {}
    instructions = update.get("instructions")
    if instructions is not None:
        if not isinstance(instructions, str) or len(instructions) > LONGEST_INSTRUCTIONS:
            kind = type(instructions).__name__ if not isinstance(instructions, str) else f"{len(instructions)} characters long"
            raise InvalidSession("session.instructions", kind, f"text of at most {LONGEST_INSTRUCTIONS} characters")
        changes["instructions"] = instructions
    if update.get("output_modalities") is not None:
        changes["speaks"] = speaks_from(update["output_modalities"], "session.output_modalities")
    audio = part_of(update, "session.audio", "audio")
    for side, field in (("input", "input_format"), ("output", "output_format")):
        part = part_of(audio, f"session.audio.{side}", side)
        if part.get("format") is not None:
            changes[field] = _format(part_of(part, f"session.audio.{side}.format", "format"), f"session.audio.{side}.format")
    listening = part_of(audio, "session.audio.input", "input")
    if "turn_detection" in listening:
        changes["turn_detection"] = _turn_detection(settings.turn_detection, listening)
    if "transcription" in listening:
        changes["wants_partials"] = listening["transcription"] is not None
    declared = session.declared if update.get("tools") is None else tools_from(update["tools"], "session.tools")
    choice = session.tool_choice if update.get("tool_choice") is None else _tool_choice(update["tool_choice"])
    changes["tools"] = () if choice == "none" else declared
    return RealtimeSession(replace(settings, **changes), declared, choice)


def speaks_from(modalities: object, path: str) -> bool:
    """Whether a reply is spoken. Raises InvalidSession."""
    if modalities == ["audio"]:
        return True
    if modalities == ["text"]:
        return False
    raise InvalidSession(path, modalities, '["audio"] | ["text"], one at a time')


def _tool_choice(wanted: object) -> str:
    if isinstance(wanted, Mapping) and wanted.get("type") == "function":
        return "auto"
    if wanted not in _CHOICES:
        raise InvalidSession("session.tool_choice", wanted, " | ".join(_CHOICES) + " | an object of type function")
    return "none" if wanted == "none" else "auto"


def _format(wanted: Mapping[str, Any], path: str) -> AudioFormat:
    encoding = _ENCODING_BY_TYPE.get(str(wanted.get("type")))
    if encoding is None:
        raise InvalidSession(f"{path}.type", wanted.get("type"), " | ".join(_ENCODING_BY_TYPE))
    rate_hz = _PCM_RATE_HZ if encoding is AudioEncoding.PCM16 else 8_000
    if encoding is AudioEncoding.PCM16 and wanted.get("rate", rate_hz) != rate_hz:
        raise InvalidSession(f"{path}.rate", wanted["rate"], f"{rate_hz} (audio/pcm), or audio/pcmu, audio/pcma at 8000")
    return AudioFormat(encoding, rate_hz)


def _turn_detection(now: ServerVad | None, listening: Mapping[str, Any]) -> ServerVad | None:
    if listening["turn_detection"] is None or listening["turn_detection"] is False:  # some clients say it so
        return None
    wanted = part_of(listening, _VAD_PATH, "turn_detection")
    if wanted.get("type", "server_vad") not in _DETECTORS:
        raise InvalidSession(f"{_VAD_PATH}.type", wanted["type"], " | ".join((*_DETECTORS, "null")))
    base = now or ServerVad()
    # A client that names another silence gets just that; one that leaves it as it is gets what fits the caller.
    names_silence = wanted.get("silence_duration_ms") not in (None, base.silence_duration_ms)
    try:
        return ServerVad(
            threshold=number(wanted, _VAD_PATH, "threshold", base.threshold),
            prefix_padding_ms=whole(wanted, _VAD_PATH, "prefix_padding_ms", base.prefix_padding_ms),
            silence_duration_ms=whole(wanted, _VAD_PATH, "silence_duration_ms", base.silence_duration_ms),
            creates_response=flag(wanted, _VAD_PATH, "create_response", base.creates_response),
            interrupts_response=flag(wanted, _VAD_PATH, "interrupt_response", base.interrupts_response),
            is_adaptive=base.is_adaptive and not names_silence,
            idle_timeout_ms=whole(wanted, _VAD_PATH, "idle_timeout_ms", 0),
        )
    except OutOfRange as error:
        raise InvalidSession(f"{_VAD_PATH}.{error.name}", error.value, error.allowed) from None


def shown(session_id: str, session: RealtimeSession) -> dict[str, Any]:
    """The session as the server reports it."""
    settings = session.settings
    vad = settings.turn_detection
    return {
        "type": "realtime",
        "object": "realtime.session",
        "id": session_id,
        "model": settings.agent,
        "output_modalities": ["audio" if settings.speaks else "text"],
        "instructions": settings.instructions,
        "tools": shown_tools(session.declared),
        "tool_choice": session.tool_choice,
        "max_output_tokens": "inf",
        "audio": {
            "input": {
                "format": shown_format(settings.input_format),
                "transcription": {"model": "whisper-tiny.en"},
                "noise_reduction": None,
                "turn_detection": None
                if vad is None
                else {
                    "type": "server_vad",
                    "threshold": vad.threshold,
                    "prefix_padding_ms": vad.prefix_padding_ms,
                    "silence_duration_ms": vad.silence_duration_ms,
                    "create_response": vad.creates_response,
                    "interrupt_response": vad.interrupts_response,
                    "idle_timeout_ms": vad.idle_timeout_ms or None,
                },
            },
            "output": {"format": shown_format(settings.output_format), "voice": "heart", "speed": 1.0},
        },
    }


def shown_format(audio_format: AudioFormat) -> dict[str, Any]:
    shown_format: dict[str, Any] = {"type": _TYPE_BY_ENCODING[audio_format.encoding]}
    if audio_format.encoding is AudioEncoding.PCM16:
        shown_format["rate"] = audio_format.sample_rate_hz
    return shown_format
