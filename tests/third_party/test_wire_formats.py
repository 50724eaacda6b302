"""What is on our wires, held against types and codecs that other people wrote."""

from __future__ import annotations

import json
import os
import subprocess
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtime.codec.realtime_memory import Continue, ItemWish, KeepItem, RealtimeMemory, Truncate
from runtime.codec.realtime_server import RealtimeEncoder
from runtime.codec.realtime_session import RealtimeSession
from runtime.codec.realtime_told import RealtimeTold
from runtime.codec.twilio import MarkClock, TwilioDecoder, TwilioEncoder
from runtime.dialogue import agent_events as ev
from runtime.dialogue.agent import Role
from runtime.dialogue.caller_events import AppendAudio, Dtmf
from runtime.dialogue.session_settings import ClientTool, SessionSettings
from runtime.primitives.reasons import EndReason

_ROOT = Path(__file__).parents[2]
_SCRIPTS = Path(__file__).parent / "scripts"
_SETTINGS = SessionSettings("gpt-realtime", tools=(ClientTool("weather", "d", '{"type": "object"}'),))
_SESSION = RealtimeSession(_SETTINGS, _SETTINGS.tools)
_MANUAL = RealtimeSession(SessionSettings("gpt-realtime", turn_detection=None, speaks=False))

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120)]

_OUTPUT = {
    "id": "o",
    "object": "realtime.item",
    "type": "function_call_output",
    "status": "completed",
    "call_id": "c",
    "output": "1",
}
_EVENTS: list[ev.AgentEvent] = [
    ev.SessionOpened("s", 1, "r", _SETTINGS),
    ev.Echoed(_SESSION),
    ev.SpeechStarted("item_1", 100),
    ev.SpeechStopped("item_1", 900, 400),
    ev.InputCommitted("item_1", ""),
    ev.TranscriptPartial("item_1", "hel"),
    ev.TranscriptReady("item_1", "hello", 800),
    ev.TranscriptFailed("item_1", "unintelligible"),
    ev.InputCleared(),
    ev.TextAdded("item_2", "item_1", "be kind", Role.SYSTEM),
    ev.TextAdded("item_3", "item_2", "hello", Role.CALLER),
    ev.TextAdded("item_4", "item_3", "good day", Role.AGENT),
    ev.ReplyStarted(1, "item_5", "item_4", metadata={"topic": "t"}),
    ev.ToolStarted(1, "call_1", "look", "{}"),
    ev.ToolFinished(1, "call_1", "look", "{}", '"done"', False),
    ev.ReplyText(1, "Let me see."),
    ev.ReplyAudio(1, b"\1\0" * 480),
    ev.ToolStarted(1, "call_2", "look", "{}"),
    ev.ToolFinished(1, "call_2", "look", "{}", '"too late"', True),
    ev.ToolRequested(1, "call_3", "weather", '{"city": "Paris"}'),
    ev.Echoed(KeepItem(_OUTPUT)),
    ev.Echoed(Continue(1)),
    ev.ReplyText(1, "Fine."),
    ev.ReplyAudio(1, b"\1\0" * 480),
    ev.ReplyDone(1, ev.ReplyStatus.INTERRUPTED, "Let me see.", 40),
    ev.Echoed(Truncate("item_5", 0, 20)),
    ev.Echoed(ItemWish("item_5", "e")),
    ev.Echoed(ItemWish("item_3", "e")),
    ev.Echoed(ItemWish("nothing", "e")),
    ev.ItemDeleted("item_3"),
    ev.InputWithdrawn("item_1"),
    ev.Echoed(_MANUAL),
    ev.ReplyStarted(2, "item_6", "item_5", speaks=False),
    ev.ReplyText(2, "Yes."),
    ev.ReplyDone(2, ev.ReplyStatus.COMPLETED, "Yes.", 0),
    ev.ReplyStarted(3, "item_7", "item_6"),
    ev.ReplyDone(3, ev.ReplyStatus.CANCELLED, "", 0),
    ev.SoftError("unknown_event", "type is 'x'", "e7", "type"),
    ev.SessionClosed(EndReason.MAXIMUM_LENGTH),
]
_BESIDE_THEIR_TYPES = {
    # Real servers send them; the SDK's GA types of a session, made for requests, do not name them.
    "session.created.session.id",
    "session.created.session.object",
    "session.updated.session.id",
    "session.updated.session.object",
    # Younger than the beta's types, which let unknown fields be.
    "response.function_call_arguments.done.name",
    "response.done.response.usage.input_token_details.image_tokens",
    "response.done.response.usage.input_token_details.cached_tokens_details",
}


def _run(environment: str, script: str, given: Any, folder: Path) -> Any:
    python = _ROOT / environment / "bin" / "python"
    assert python.exists(), f"{environment} is missing: make clients-test installs it"
    file = folder / "given.json"
    file.write_text(json.dumps(given))
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    command = [str(python), str(_SCRIPTS / script), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, env=clean, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_every_event_fits_the_sdk_s_types_in_both_dialects(tmp_path: Path) -> None:  # requirement V4
    told: dict[str, list[Any]] = {}
    for dialect in ("ga", "beta"):
        encoder = RealtimeEncoder(RealtimeTold.nothing(RealtimeSession(_SETTINGS)), RealtimeMemory(), is_beta=dialect == "beta")
        told[dialect] = [json.loads(text) for event in _EVENTS for text in encoder.encode(event)]
    assert len({event["type"] for event in told["ga"]}) > 30
    faults = _run(".venv-openai", "openai_event_types.py", told, tmp_path)
    for dialect in ("ga", "beta"):
        assert [fault for fault in faults[dialect] if fault not in _BESIDE_THEIR_TYPES] == []


def test_a_telephone_s_messages_mean_the_same_to_another_implementation(tmp_path: Path) -> None:
    codes = bytes(range(256))
    media = {"event": "media", "streamSid": "MZ1", "media": {"track": "inbound", "payload": b64encode(codes).decode()}}
    dtmf = {"event": "dtmf", "streamSid": "MZ1", "dtmf": {"track": "inbound_track", "digit": "5"}}
    messages = [json.dumps(media), json.dumps(dtmf)]
    pcm = (np.sin(np.arange(160) / 5) * 20_000).astype("<i2").tobytes()
    theirs = _run(".venv-pipecat", "pipecat_twilio.py", {"messages": messages, "pcm": b64encode(pcm).decode()}, tmp_path)

    audio, key = (event for message in messages for event in TwilioDecoder(MarkClock()).decode(message))
    assert isinstance(audio, AppendAudio)
    assert b64decode(theirs["read"][0]["audio"]) == audio.pcm
    assert key == Dtmf(theirs["read"][1]["digit"])

    encoder = TwilioEncoder("MZ1", MarkClock())
    encoder.encode(ev.ReplyStarted(1, "i", ""))
    (sent,) = encoder.encode(ev.ReplyAudio(1, pcm))
    assert json.loads(sent) == theirs["audio"]
    (clear,) = encoder.encode(ev.Flush(1))
    assert json.loads(clear) == theirs["clear"]
