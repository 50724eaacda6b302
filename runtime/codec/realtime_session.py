"""The `session` object of the OpenAI Realtime protocol (GA shape): merging a client's update, and showing what is in force."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from runtime.dialogue.session_settings import AudioEncoding, AudioFormat, OutOfRange, ServerVad, SessionSettings

__all__ = ["InvalidSession", "merged", "shown"]

_TYPE_BY_ENCODING: Final = {
    AudioEncoding.PCM16: "audio/pcm",
    AudioEncoding.MULAW: "audio/pcmu",
    AudioEncoding.ALAW: "audio/pcma",
}
_ENCODING_BY_TYPE: Final = {name: encoding for encoding, name in _TYPE_BY_ENCODING.items()}
_PCM_RATE_HZ: Final = 24_000
"""The only PCM rate that the protocol and its clients' types know."""
_LONGEST_INSTRUCTIONS: Final = 16 * 1024
_VAD_PATH: Final = "session.audio.input.turn_detection"


class InvalidSession(ValueError):
    """A field of a session update is not allowed; `parameter` is its path."""

    def __init__(self, parameter: str, value: object, allowed: str) -> None:
        self.parameter = parameter
        shown = repr(value) if not isinstance(value, int) or abs(value) < 10**12 else "a number of many digits"
        super().__init__(f"{parameter} is {shown[:80]}; allowed: {allowed}")


def merged(settings: SessionSettings, update: Mapping[str, Any]) -> SessionSettings:
    """The settings after a client's `session.update`; what it does not mention stays, what we do not know is ignored.

    Raises InvalidSession, and then nothing of the update holds.
    """
    if update.get("type", "realtime") != "realtime":
        raise InvalidSession("session.type", update["type"], "realtime")
    changes: dict[str, Any] = {}
    instructions = update.get("instructions")
    if instructions is not None:
        if not isinstance(instructions, str) or len(instructions) > _LONGEST_INSTRUCTIONS:
            kind = type(instructions).__name__ if not isinstance(instructions, str) else f"{len(instructions)} characters long"
            raise InvalidSession("session.instructions", kind, f"text of at most {_LONGEST_INSTRUCTIONS} characters")
        changes["instructions"] = instructions
    audio = _object(update, "session.audio", "audio")
    for side, field in (("input", "input_format"), ("output", "output_format")):
        part = _object(audio, f"session.audio.{side}", side)
        if part.get("format") is not None:
            changes[field] = _format(_object(part, f"session.audio.{side}.format", "format"), f"session.audio.{side}.format")
    listening = _object(audio, "session.audio.input", "input")
    if "turn_detection" in listening:
        changes["turn_detection"] = _turn_detection(settings.turn_detection, listening)
    return replace(settings, **changes)


def _object(holder: Mapping[str, Any], path: str, name: str) -> Mapping[str, Any]:
    value = holder.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidSession(path, value, "an object")
    return value


def _format(wanted: Mapping[str, Any], path: str) -> AudioFormat:
    encoding = _ENCODING_BY_TYPE.get(str(wanted.get("type")))
    if encoding is None:
        raise InvalidSession(f"{path}.type", wanted.get("type"), " | ".join(_ENCODING_BY_TYPE))
    rate_hz = _PCM_RATE_HZ if encoding is AudioEncoding.PCM16 else 8_000
    if encoding is AudioEncoding.PCM16 and wanted.get("rate", rate_hz) != rate_hz:
        raise InvalidSession(f"{path}.rate", wanted["rate"], f"{rate_hz} (audio/pcm), or audio/pcmu, audio/pcma at 8000")
    return AudioFormat(encoding, rate_hz)


def _turn_detection(now: ServerVad | None, listening: Mapping[str, Any]) -> ServerVad | None:
    path = _VAD_PATH
    if listening["turn_detection"] is None:
        return None
    wanted = _object(listening, path, "turn_detection")
    if wanted.get("type", "server_vad") not in ("server_vad", "semantic_vad"):
        raise InvalidSession(f"{path}.type", wanted["type"], "server_vad | semantic_vad | null")
    base = now or ServerVad()
    try:
        return ServerVad(
            threshold=_number(wanted, "threshold", base.threshold),
            prefix_padding_ms=_whole(wanted, "prefix_padding_ms", base.prefix_padding_ms),
            silence_duration_ms=_whole(wanted, "silence_duration_ms", base.silence_duration_ms),
            creates_response=_flag(wanted, "create_response", base.creates_response),
            interrupts_response=_flag(wanted, "interrupt_response", base.interrupts_response),
        )
    except OutOfRange as error:
        raise InvalidSession(f"{path}.{error.name}", error.value, error.allowed) from None


def _number(holder: Mapping[str, Any], name: str, default: float) -> float:
    value = holder.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e9:
        raise InvalidSession(f"{_VAD_PATH}.{name}", value, "a number below a thousand million")
    return float(value)


def _whole(holder: Mapping[str, Any], name: str, default: int) -> int:
    value = _number(holder, name, default)
    if value != int(value):
        raise InvalidSession(f"{_VAD_PATH}.{name}", value, "a whole number of milliseconds")
    return int(value)


def _flag(holder: Mapping[str, Any], name: str, default: bool) -> bool:
    value = holder.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise InvalidSession(f"{_VAD_PATH}.{name}", value, "true | false")
    return value


def shown(session_id: str, settings: SessionSettings) -> dict[str, Any]:
    """The session as the server reports it."""
    vad = settings.turn_detection
    return {
        "type": "realtime",
        "object": "realtime.session",
        "id": session_id,
        "model": settings.agent,
        "output_modalities": ["audio"],
        "instructions": settings.instructions,
        "tools": [],
        "tool_choice": "auto",
        "max_output_tokens": "inf",
        "audio": {
            "input": {
                "format": _shown_format(settings.input_format),
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
                },
            },
            "output": {"format": _shown_format(settings.output_format), "voice": "heart", "speed": 1.0},
        },
    }


def _shown_format(audio_format: AudioFormat) -> dict[str, Any]:
    shown_format: dict[str, Any] = {"type": _TYPE_BY_ENCODING[audio_format.encoding]}
    if audio_format.encoding is AudioEncoding.PCM16:
        shown_format["rate"] = audio_format.sample_rate_hz
    return shown_format
