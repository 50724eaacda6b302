"""The optional end-of-turn classifier: refused by name where it is another file; where it is there, whole turns sound whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from clients.wav_files import read_wav
from perf.demo.script import OWN_RECORDINGS
from runtime.engines.errors import ModelUnavailable
from runtime.engines.ports import INPUT_RATE_HZ
from runtime.engines.smart_turn import SmartTurn
from runtime.engines.worker import WorkerPool

_FILE = Path(__file__).parents[3] / ".cache" / "models" / "smart-turn-v3.2-cpu.onnx"


def test_another_file_is_refused_by_name(tmp_path: Path) -> None:
    other = tmp_path / "other.onnx"
    other.write_bytes(b"something else")
    pool = WorkerPool(1, 1)
    for file in (other, tmp_path / "missing.onnx"):
        with pytest.raises(ModelUnavailable, match="smart-turn"):
            SmartTurn(pool, file)
    pool.close()


@pytest.mark.models
@pytest.mark.anyio
@pytest.mark.skipif(not _FILE.exists(), reason="the classifier was not fetched; run: make smart-turn")
async def test_whole_turns_sound_more_finished_than_turns_that_were_cut() -> None:
    pool = WorkerPool(1, 8)
    classifier = SmartTurn(pool, _FILE)
    pause = np.zeros(INPUT_RATE_HZ * 224 // 1_000, np.int16)
    whole, cut = [], []
    for path in sorted(OWN_RECORDINGS.glob("austen-*.wav")):
        samples = read_wav(path, INPUT_RATE_HZ)
        whole.append(await classifier.finished_ratio(np.concatenate([samples, pause])))
        cut.append(await classifier.finished_ratio(np.concatenate([samples[: len(samples) // 2], pause])))
    pool.close()
    assert all(0 <= ratio <= 1 for ratio in (*whole, *cut))
    # Of five read sentences it finds three finished, as its authors' own front end does (0.985, 0.086, 0.911, 0.983, 0.131).
    assert sum(ratio > 0.5 for ratio in whole) == 3
    assert whole[:1] == pytest.approx([0.985], abs=0.03)
    assert sorted(cut)[2] < 0.5
    assert np.mean(whole) > np.mean(cut) + 0.2
