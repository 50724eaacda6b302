"""smart-turn v3.2, a classifier of ends of turns by their sound (Daily, BSD-2). Optional: `make smart-turn` fetches its file.

Input as its authors feed it: the last 8 s at 16 kHz, silence in front where there is less, brought to mean 0 and variance 1, then
Whisper's log-mel spectrogram. Short clips that are cut off in mid-sentence often sound finished to it, so it may only shorten a
wait.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

from runtime.engines.log_mel import FRAMES_PER_SECOND, LogMel
from runtime.engines.model_files import import_engine, verify_sha256
from runtime.engines.ports import INPUT_RATE_HZ, Samples
from runtime.engines.worker import Priority, WorkerPool

__all__ = ["SmartTurn"]

_MODEL: Final = "smart-turn v3.2"
_SHA256: Final = "2bb026316b14a660486a75b1733cd3fbab8c2fd0314dc9af7be49f8cca967e4f"
_SECONDS: Final = 8
_SAMPLES: Final = _SECONDS * INPUT_RATE_HZ
_SMALLEST_VARIANCE: Final = 1e-7


class SmartTurn:
    """Runs in the shared worker threads, a few hundredths of a second each.

    Raises ModelUnavailable where the file or onnxruntime is missing, or the file is not the one that was tested.
    """

    def __init__(self, pool: WorkerPool, file: Path) -> None:
        verify_sha256(_MODEL, file, _SHA256)
        onnxruntime: Any = import_engine(_MODEL, "onnxruntime")  # the package has no types
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.add_session_config_entry("session.inter_op.allow_spinning", "0")
        self._session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        self._pool = pool
        self._log_mel = LogMel()

    async def finished_ratio(self, samples: Samples) -> float:
        """As the port. Raises EngineBusy where too much waits already."""
        return await self._pool.run(Priority.END_OF_TURN, lambda: self.classify(samples))

    def classify(self, samples: Samples) -> float:
        """What `finished_ratio` does, blocking; may run in several threads at once."""
        sound = np.zeros(_SAMPLES, np.float32)
        last = samples[-_SAMPLES:]
        sound[_SAMPLES - len(last) :] = last.astype(np.float32) / 32768
        sound = (sound - sound.mean()) / np.sqrt(sound.var() + np.float32(_SMALLEST_VARIANCE))
        features = self._log_mel.features_of(sound, _SECONDS * FRAMES_PER_SECOND)
        (ratios, *_) = self._session.run(None, {"input_features": features})
        return float(np.ravel(ratios)[0])

    def warm_up(self) -> None:
        """Classifies a second of silence. Blocks."""
        self.classify(np.zeros(INPUT_RATE_HZ, np.int16))
