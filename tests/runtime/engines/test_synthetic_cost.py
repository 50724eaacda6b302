"""Synthetic engines burn what they state, away from the event loop, the same in every run."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator

import anyio
import numpy as np
import pytest

from runtime.engines.errors import EngineClosed
from runtime.engines.load import EngineKind, EngineSettings, load_engines
from runtime.engines.loaded import LoadedEngines
from runtime.engines.ports import INPUT_RATE_HZ, VAD_FRAME_SAMPLES
from runtime.engines.synthetic import ToneSynthesizer
from runtime.engines.synthetic_cost import Jitter, SyntheticCost
from runtime.primitives.rng import SeededRng
from tests.support.loop_gaps import longest_gap_ms

pytestmark = pytest.mark.anyio

_FRAME = np.zeros(VAD_FRAME_SAMPLES, np.int16)
_SECOND = np.zeros(INPUT_RATE_HZ, np.int16)


def _load(cost: SyntheticCost) -> LoadedEngines:
    return load_engines(EngineSettings(EngineKind.SYNTHETIC, worker_threads=2, synthetic=cost))


@pytest.fixture
def engines() -> Iterator[LoadedEngines]:
    loaded = _load(SyntheticCost(speech_ms_per_s=60, silence_ms_per_s=20, reply_ms_per_s=40, startup_ms=30))
    yield loaded
    loaded.close()


async def _cpu_ms(work: Callable[[], Awaitable[object]]) -> float:
    began_ns = time.process_time_ns()
    await work()
    return (time.process_time_ns() - began_ns) / 1e6


async def test_an_utterance_costs_by_its_length(engines: LoadedEngines) -> None:
    # The least of three: what else the process does just then only adds.
    spent_ms = min([await _cpu_ms(lambda: engines.recognizer.recognize(_SECOND)) for _ in range(3)])
    assert 59 <= spent_ms <= 90
    heard = await engines.recognizer.recognize(_SECOND)
    assert heard.text == "1 seconds of speech"


async def test_a_reply_costs_by_its_length(engines: LoadedEngines) -> None:
    text = "x" * (1_000 // ToneSynthesizer.MS_PER_CHARACTER)
    spent_ms = min([await _cpu_ms(lambda: engines.synthesizer.synthesize(text, is_first=True)) for _ in range(3)])
    assert 38 <= spent_ms <= 70


async def test_the_start_is_paid_with_the_first_frame_and_listening_as_it_goes(engines: LoadedEngines) -> None:
    stream = engines.vad.open_stream()
    first_ms = await _cpu_ms(lambda: stream.speech_ratio(_FRAME))
    assert 30 <= first_ms <= 60

    async def listen() -> None:
        for _ in range(32):
            await stream.speech_ratio(_FRAME)

    assert 19 <= await _cpu_ms(listen) <= 45


async def test_the_event_loop_is_not_held_up(engines: LoadedEngines) -> None:
    async def everything() -> None:
        stream = engines.vad.open_stream()
        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(engines.recognizer.recognize, _SECOND)
                group.start_soon(engines.synthesizer.synthesize, "a sentence that takes a while")
            for _ in range(32):
                await stream.speech_ratio(_FRAME)

    # Others use this machine too, and make gaps of their own; engines that held the loop up would do so every time.
    for _ in range(40):
        if await longest_gap_ms(everything) < 20:
            return
    pytest.fail("not once in forty did the loop run on beside the engines")


def test_jitter_is_even_bounded_and_repeats_with_its_seed() -> None:
    def draws(seed: int) -> list[float]:
        jitter = Jitter(0.3, SeededRng(seed))
        return [jitter.of(10.0) for _ in range(500)]

    assert draws(7) == draws(7)
    assert draws(7) != draws(8)
    assert all(7.0 <= drawn <= 13.0 for drawn in draws(7))
    assert sum(draws(7)) / 500 == pytest.approx(10.0, rel=0.02)
    assert Jitter(0.0, SeededRng(1)).of(10.0) == 10.0


def test_no_cost_makes_no_thread() -> None:
    assert SyntheticCost(jitter=0.5, seed=3).is_free
    assert _load(SyntheticCost()).closers == ()


@pytest.mark.parametrize("wrong", [{"jitter": 1.1}, {"speech_ms_per_s": -1}, {"startup_ms": float("nan")}])
def test_a_cost_that_makes_no_sense_is_refused_by_name(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        SyntheticCost(**wrong)  # type: ignore[arg-type]  # the seed is an int and is not among them


async def test_closed_engines_say_so() -> None:
    engines = _load(SyntheticCost(speech_ms_per_s=1, startup_ms=1))
    engines.close()
    engines.close()
    with pytest.raises(EngineClosed):
        await engines.recognizer.recognize(_SECOND)
    with pytest.raises(EngineClosed):
        await engines.vad.open_stream().speech_ratio(_FRAME)
