"""Loads the engines of a process once, and makes the first call as fast as the second."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from runtime.engines.hibari import HibariSynthesizer
from runtime.engines.loaded import LoadedEngines
from runtime.engines.silero_vad import SileroVad
from runtime.engines.smart_turn import SmartTurn
from runtime.engines.synthetic import synthetic_engines
from runtime.engines.synthetic_cost import SyntheticCost, costly_engines
from runtime.engines.whisper import WhisperRecognizer
from runtime.engines.worker import WorkerPool

__all__ = ["EngineKind", "EngineSettings", "load_engines"]


class EngineKind(StrEnum):
    MODELS = "models"
    """Silero, Whisper and hibari, from the voice extra."""
    SYNTHETIC = "synthetic"
    """No models, for tests: see `synthetic`; at the CPU cost that `SyntheticCost` states."""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """How the engines of one process run.

    Attributes:
        kind: which set.
        worker_threads: how many recognitions and syntheses run at once, at least 1. Default 2: what a call costs was measured
            on two cores; more threads than cores only make every caller wait longer.
        queue_limit: how many of them may wait, at least 1. Default 64: at 0.1 s each on two threads the last one would wait
            3 s, after which an answer is no use to a caller.
        smart_turn: the classifier's file; empty: without it.
        synthetic: what the synthetic kind costs; other kinds cost what they cost.
    """

    kind: EngineKind = EngineKind.MODELS
    worker_threads: int = 2
    queue_limit: int = 64
    smart_turn: str = ""
    synthetic: SyntheticCost = field(default_factory=SyntheticCost)


def load_engines(settings: EngineSettings | None = None) -> LoadedEngines:
    """Loads and warms every engine, which takes about two seconds.

    Blocks and needs no running event loop, so an application calls it in a thread.
    Raises ModelUnavailable, naming the model, what was looked for and the fix, where a package or model is missing or a model is
    not the one that was tested. Nothing is ever downloaded.
    """
    settings = settings or EngineSettings()
    if settings.kind is EngineKind.SYNTHETIC:
        free = synthetic_engines()
        cost = settings.synthetic
        return free if cost.is_free else costly_engines(free, cost, settings.worker_threads, settings.queue_limit)
    pool = WorkerPool(settings.worker_threads, settings.queue_limit, quick=1)
    try:
        recognizer = WhisperRecognizer(pool, settings.worker_threads)
        synthesizer = HibariSynthesizer(pool)
        vad = SileroVad()
        smart_turn = SmartTurn(pool, Path(settings.smart_turn)) if settings.smart_turn else None
    except BaseException:
        pool.close()
        raise
    others = [synthesizer.warm_up, vad.warm_up, *([smart_turn.warm_up] if smart_turn else [])]
    _run_in_parallel([recognizer.warm_up] * settings.worker_threads + others)
    return LoadedEngines(
        vad=vad,
        recognizer=recognizer,
        synthesizer=synthesizer,
        waiting=pool.waiting,
        end_of_turn=smart_turn,
        closers=(pool.close, vad.close),
    )


def _run_in_parallel(works: list[Callable[[], None]]) -> None:
    """All at once, so that every one of the recogniser's own threads gets a first job. Raises the first error."""
    with ThreadPoolExecutor(len(works), "warm-up") as executor:
        for future in [executor.submit(work) for work in works]:
            future.result()
