"""The beta dialect of the OpenAI Realtime protocol, as a translation to and from the GA shape that everything else here speaks.

Differences: a flat session, other names of output events and content parts, `conversation.item.created` in place of added and
done.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

__all__ = ["beta_from_ga", "ga_from_beta", "is_beta"]

Wire: TypeAlias = dict[str, Any]  # Any: JSON

_HEADER_VALUE: Final = "realtime=v1"
_SUBPROTOCOL: Final = "openai-beta.realtime-v1"
_FORMATS: Final[Mapping[str, Wire]] = {
    "pcm16": {"type": "audio/pcm", "rate": 24_000},
    "g711_ulaw": {"type": "audio/pcmu"},
    "g711_alaw": {"type": "audio/pcma"},
}
_FORMAT_NAMES: Final = {wanted["type"]: name for name, wanted in _FORMATS.items()}
_EVENT_NAMES: Final = {
    "response.output_audio.delta": "response.audio.delta",
    "response.output_audio.done": "response.audio.done",
    "response.output_audio_transcript.delta": "response.audio_transcript.delta",
    "response.output_audio_transcript.done": "response.audio_transcript.done",
    "response.output_text.delta": "response.text.delta",
    "response.output_text.done": "response.text.done",
    "conversation.item.added": "conversation.item.created",
}
_PART_NAMES: Final = {"output_audio": "audio", "output_text": "text"}
_PATHS: Final = (
    ("session.audio.input.turn_detection", "session.turn_detection"),
    ("session.audio.input.format", "session.input_audio_format"),
    ("session.audio.output.format", "session.output_audio_format"),
    ("output_modalities", "modalities"),
)
_YOUNGER: Final = "idle_timeout_ms"
_MODALITIES: Final[Mapping[str, list[str]]] = {"audio": ["text", "audio"], "text": ["text"]}


def is_beta(header: str, subprotocols: list[str]) -> bool:
    """Whether a client asks for this dialect: by its `OpenAI-Beta` header, or, from a browser, by a subprotocol."""
    return _HEADER_VALUE in [word.strip() for word in header.split(",")] or _SUBPROTOCOL in subprotocols


def ga_from_beta(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """A client's event. What is malformed stays as it is, to be refused by whoever reads it."""
    match event.get("type"):
        case "session.update" if isinstance(event.get("session"), Mapping):
            return {**event, "session": _ga_session(event["session"])}
        case "response.create" if isinstance(event.get("response"), Mapping):
            response = dict(event["response"])
            _rename_modalities(response)
            return {**event, "response": response}
        case "conversation.item.create" if isinstance(event.get("item"), Mapping):
            return {**event, "item": dict(event["item"])}
    return event


def _ga_session(session: Mapping[str, Any]) -> Wire:
    flat = dict(session)
    flat.pop("type", None)
    _rename_modalities(flat)
    audio: dict[str, Wire] = {"input": {}, "output": {}}
    for side in ("input", "output"):
        wanted = flat.pop(f"{side}_audio_format", None)
        if wanted is not None:
            audio[side]["format"] = _FORMATS.get(wanted, {"type": wanted}) if isinstance(wanted, str) else {"type": str(wanted)}
    for ours, theirs in (("turn_detection", "turn_detection"), ("transcription", "input_audio_transcription")):
        if theirs in flat:
            audio["input"][ours] = flat.pop(theirs)
    return {**flat, "audio": audio}


def _rename_modalities(holder: Wire) -> None:
    wanted = holder.pop("modalities", None)
    if wanted is not None:
        known = (
            isinstance(wanted, list) and bool(wanted) and all(isinstance(each, str) and each in _MODALITIES for each in wanted)
        )
        holder["output_modalities"] = (["audio"] if "audio" in wanted else ["text"]) if known else wanted


def beta_from_ga(message: Wire) -> Wire | None:
    """A server's event; None: the dialect has none."""
    kind = message["type"]
    item = message.get("item")
    if kind == "conversation.item.done" or kind.startswith("response.mcp_call") or _is_server_tool(item):
        return None
    told = {**message, "type": _EVENT_NAMES.get(kind, kind)}
    if "session" in told:
        told["session"] = _flat_session(told["session"])
    if "response" in told:
        told["response"] = _flat_response(told["response"])
    if item is not None:
        told["item"] = _renamed_parts(item)
    if kind == "error":
        told["error"] = _renamed_paths(told["error"])
    return told


def _is_server_tool(item: Wire | None) -> bool:
    return item is not None and item.get("type") == "mcp_call"


def _flat_session(session: Wire) -> Wire:
    listening, speaking = session["audio"]["input"], session["audio"]["output"]
    detection = listening["turn_detection"]
    return {
        "object": session["object"],
        "id": session["id"],
        "model": session["model"],
        "modalities": _MODALITIES[session["output_modalities"][0]],
        "instructions": session["instructions"],
        "voice": speaking["voice"],
        "input_audio_format": _FORMAT_NAMES[listening["format"]["type"]],
        "output_audio_format": _FORMAT_NAMES[speaking["format"]["type"]],
        "input_audio_transcription": listening["transcription"],
        "turn_detection": None if detection is None else {name: detection[name] for name in detection if name != _YOUNGER},
        "tools": session["tools"],
        "tool_choice": session["tool_choice"],
        "temperature": 0.8,
        "max_response_output_tokens": session["max_output_tokens"],
    }


def _flat_response(response: Wire) -> Wire:
    flat = {name: value for name, value in response.items() if name not in ("output_modalities", "audio")}
    flat["modalities"] = _MODALITIES[response["output_modalities"][0]]
    speaking = response["audio"]["output"]
    flat["voice"] = speaking["voice"]
    flat["output_audio_format"] = _FORMAT_NAMES[speaking["format"]["type"]]
    flat["output"] = [_renamed_parts(item) for item in response["output"] if not _is_server_tool(item)]
    return flat


def _renamed_parts(item: Wire) -> Wire:
    if "content" not in item:
        return item
    return {**item, "content": [{**part, "type": _PART_NAMES.get(part["type"], part["type"])} for part in item["content"]]}


def _renamed_paths(error: Wire) -> Wire:
    told = dict(error)
    for field in ("message", "param"):
        for ours, theirs in _PATHS:
            if told[field]:
                told[field] = told[field].replace(ours, theirs)
    return told
