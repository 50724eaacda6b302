"""What each wire costs a frame of 20 ms: `python -m perf.bench.wires --json`.

One frame of the caller's audio decoded and one of the agent's encoded, as text or bytes ready for the socket, without the socket.
The share of a core is that of a call that sends and receives all the time: 50 frames a second each way.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import timeit
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final

from perf.bench.machine import ForeignCpu, describe_machine
from perf.targets import Target, all_met, as_json
from protos.switchboard.v1 import voice_pb2 as pb
from runtime.codec.converse_client import ConverseDecoder
from runtime.codec.converse_config import format_to
from runtime.codec.converse_server import ConverseEncoder
from runtime.codec.realtime_client import RealtimeDecoder
from runtime.codec.realtime_memory import RealtimeMemory
from runtime.codec.realtime_server import RealtimeEncoder
from runtime.codec.realtime_session import RealtimeSession
from runtime.codec.realtime_told import RealtimeTold
from runtime.codec.twilio import TWILIO_FORMAT, MarkClock, TwilioDecoder, TwilioEncoder
from runtime.dialogue.agent_events import ReplyAudio, ReplyStarted
from runtime.dialogue.session_settings import PCM16_24K, SessionSettings

_FRAMES_PER_S: Final = 50
_ROUNDS: Final = 5
_CORE_SHARE: Final = 0.002
_SETTINGS: Final = SessionSettings("agent")
_STARTED: Final = ReplyStarted(1, "item", "")
Work = Callable[[], object]


def _tone(rate_hz: int) -> bytes:
    return b"".join((number * 97 % 20_000).to_bytes(2, "little") for number in range(rate_hz // _FRAMES_PER_S))


def _realtime(is_beta: bool) -> tuple[Work, Work]:
    memory, session = RealtimeMemory(), RealtimeSession(_SETTINGS)
    decoder = RealtimeDecoder(session, memory, is_beta=is_beta)
    encoder = RealtimeEncoder(RealtimeTold.nothing(session), memory, is_beta=is_beta)
    encoder.encode(_STARTED)
    pcm = _tone(PCM16_24K.sample_rate_hz)
    message = json.dumps({"type": "input_audio_buffer.append", "audio": b64encode(pcm).decode()})
    frame = ReplyAudio(1, pcm)
    return lambda: decoder.decode(message), lambda: encoder.encode(frame)


def _converse() -> tuple[Work, Work]:
    decoder, encoder = ConverseDecoder(_SETTINGS), ConverseEncoder(_SETTINGS)
    pcm = _tone(PCM16_24K.sample_rate_hz)
    message = pb.ConverseRequest(audio=pb.AudioChunk(data=pcm, format=format_to(PCM16_24K))).SerializeToString()
    frame = ReplyAudio(1, pcm)
    return (
        lambda: decoder.decode(pb.ConverseRequest.FromString(message)),
        lambda: [response.SerializeToString() for response in encoder.encode(frame)],
    )


def _twilio() -> tuple[Work, Work]:
    marks = MarkClock()
    decoder, encoder = TwilioDecoder(marks), TwilioEncoder("MZ", marks)
    encoder.encode(_STARTED)
    payload = b64encode(bytes(TWILIO_FORMAT.sample_rate_hz // _FRAMES_PER_S)).decode()
    message = json.dumps({"event": "media", "streamSid": "MZ", "media": {"track": "inbound", "payload": payload}})
    frame = ReplyAudio(1, _tone(TWILIO_FORMAT.sample_rate_hz))
    return lambda: decoder.decode(message), lambda: encoder.encode(frame)


_WIRES: Final[Mapping[str, Callable[[], tuple[Work, Work]]]] = {
    "realtime": lambda: _realtime(is_beta=False),
    "realtime-beta": lambda: _realtime(is_beta=True),
    "converse": _converse,
    "twilio": _twilio,
}


def measure(wire: str, frames: int) -> dict[str, Any]:
    """CPU time of the thread, microseconds a frame: the best of some rounds, since others' work only adds."""
    decode, encode = _WIRES[wire]()
    decode_us, encode_us = (
        min(timeit.repeat(work, timer=time.thread_time, number=frames, repeat=_ROUNDS)) / frames * 1e6
        for work in (decode, encode)
    )
    share = (decode_us + encode_us) * _FRAMES_PER_S / 1e6
    return {"wire": wire, "decode_us": round(decode_us, 2), "encode_us": round(encode_us, 2), "core_share": round(share, 6)}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m perf.bench.wires", description="Times what each wire costs a frame.")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--frames", type=int, default=20_000, help="frames a round (default 20000)")
    arguments = parser.parse_args()
    if not 1 <= arguments.frames <= 1_000_000:
        parser.error(f"--frames is {arguments.frames}; allowed: 1 to 1000000")
    found = []
    with ForeignCpu(time.perf_counter) as foreign:
        for wire in _WIRES:
            print(f"{wire} ...", file=sys.stderr)
            found.append(measure(wire, arguments.frames))
    targets = [Target(f"core_share_{each['wire']}", each["core_share"], "cores", "<", _CORE_SHARE) for each in found]
    result = {
        "ok": all_met(targets),
        "targets": as_json(targets),
        "wires": found,
        "foreign_cpu_cores": foreign.cores,
        "machine": describe_machine(),
        "method": f"codec alone, no socket; thread CPU, best of {_ROUNDS} rounds of {arguments.frames} frames of 20 ms",
    }
    if arguments.json:
        print(json.dumps(result))
    else:
        for each in found:
            print(
                f"{each['wire']:>14}: in {each['decode_us']} us, out {each['encode_us']} us, {each['core_share']:.3%} of a core"
            )
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
