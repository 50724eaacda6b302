"""A session over gRPC: an assignment of the balancer's, then `Converse` at the runtime itself, with the ticket."""

from __future__ import annotations

import contextlib
import json
import queue
import threading
import urllib.error
import urllib.request
from typing import Any, Final

import grpc

from perf.locust.line import Heard, LineBroken, LineRefused, OnHeard, Opened, start_listening
from perf.locust.sound import silent_frame, voiced_frame
from protos.switchboard.v1 import voice_pb2 as pb
from protos.switchboard.v1 import voice_pb2_grpc

__all__ = ["ConverseLine"]

_RATE_HZ: Final = 16_000
_OPEN_S: Final = 15.0
_CLOSE_S: Final = 5.0
_OUTGOING: Final = 256
"""Messages that may wait for gRPC to take them: fifteen seconds of audio at 60 ms; a line that is behind by more is broken."""
_FORMAT: Final = pb.AudioFormat(encoding=pb.AUDIO_ENCODING_PCM16, sample_rate_hz=_RATE_HZ)
_REFUSED: Final = frozenset({grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE})


class ConverseLine:
    """See `Line`. The channel is the session's own, as with callers on machines of their own.

    Args:
        public_url: http://HOST:PORT of a balancer.
        agent: whom to ask for.
    """

    def __init__(self, public_url: str, agent: str, frame_ms: int) -> None:
        self._url = f"{public_url}/v1/assignments"
        self._agent = agent
        self._frame_ms = frame_ms
        self._voiced = voiced_frame(_RATE_HZ, frame_ms)
        self._silent = silent_frame(_RATE_HZ, frame_ms)
        self._sent_ms = 0
        self._outgoing: queue.Queue[pb.ConverseRequest | None] = queue.Queue(_OUTGOING)
        self._channel: grpc.Channel | None = None
        self._stream: Any = None  # a call and an iterator at once: grpc's public types have no such class
        self._started = threading.Event()
        self._is_gone = threading.Event()
        self._why = ""

    def open(self, heard: OnHeard) -> Opened:
        assigned = self._assignment()
        self._channel = grpc.insecure_channel(assigned["grpc_address"])
        self._put(pb.ConverseRequest(config=pb.SessionConfig(agent=self._agent, input_format=_FORMAT)))
        ticket = (("x-switchboard-ticket", assigned["ticket"]),)
        self._stream = voice_pb2_grpc.VoiceAgentStub(self._channel).Converse(iter(self._outgoing.get, None), metadata=ticket)
        start_listening(lambda: self._listen(heard), "converse-line")
        if not self._started.wait(_OPEN_S):
            raise LineBroken("no start came")
        if self._is_gone.is_set():
            if self._stream.code() in _REFUSED:
                raise LineRefused(f"grpc_{self._stream.code().name.lower()}")
            raise LineBroken(self._why)
        return Opened(assigned["session_id"], assigned["runtime_id"])

    def speak(self, *, is_voiced: bool) -> None:
        data = self._voiced if is_voiced else self._silent
        self._put(pb.ConverseRequest(audio=pb.AudioChunk(data=data, format=_FORMAT, media_time_ms=self._sent_ms)))
        self._sent_ms += self._frame_ms

    def cancel_reply(self) -> None:
        self._put(pb.ConverseRequest(interrupt=pb.Interrupt()))

    def goodbye(self) -> None:
        self._put(pb.ConverseRequest(end=pb.EndSession()))
        self._put(None)
        has_ended = self._is_gone.wait(_CLOSE_S)
        self._close()
        if not has_ended:
            raise LineBroken("the stream did not end after the goodbye")

    def cut(self) -> None:
        if self._stream is not None:
            self._stream.cancel()
        self._close()

    def _close(self) -> None:
        with contextlib.suppress(queue.Full):
            self._outgoing.put_nowait(None)  # lets go the thread that reads for gRPC
        if self._channel is not None:
            self._channel.close()

    def _assignment(self) -> dict[str, str]:
        body = json.dumps({"agent": self._agent}).encode()
        request = urllib.request.Request(self._url, body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=_OPEN_S) as answer:
                assigned: dict[str, str] = json.load(answer)
                return assigned
        except urllib.error.HTTPError as error:
            with error:
                raise LineRefused(str(json.load(error)["error"]["code"])) from error
        except OSError as error:
            raise LineBroken(type(error).__name__) from error

    def _put(self, request: pb.ConverseRequest | None) -> None:
        if self._is_gone.is_set():
            raise LineBroken(self._why)
        try:
            self._outgoing.put_nowait(request)
        except queue.Full:
            raise LineBroken("the stream takes no more") from None

    def _listen(self, heard: OnHeard) -> None:
        try:
            for response in self._stream:
                match response.WhichOneof("payload"):
                    case "started":
                        self._started.set()
                    case "reply_started":
                        heard(Heard.REPLY, 0.0)
                    case "reply_audio":
                        heard(Heard.AUDIO, len(response.reply_audio.chunk.data) / 2 / _RATE_HZ)
                    case "reply_done":
                        heard(Heard.REPLY_OVER, 0.0)
                    case "ended":
                        self._why = f"ended: {response.ended.reason}"
        except grpc.RpcError:
            self._why = f"{self._stream.code().name}: {self._stream.details()}"
        finally:
            self._is_gone.set()
            self._started.set()
            heard(Heard.GONE, 0.0)
