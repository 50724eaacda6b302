"""hibari text to speech: one English voice, "heart", which lies inside the `hibari-tts` package (Apache-2.0).

The package fetches its other voices from a hub on first use. They are out of reach here: the model file is found and checked by
us and handed over by path, which leaves the package nothing to look up.
"""

from __future__ import annotations

import threading
from typing import Any, Final

import numpy as np

from runtime.engines.model_files import find_model, import_engine
from runtime.engines.ports import Samples
from runtime.engines.speech_text import speakable
from runtime.engines.worker import Priority, WorkerPool

__all__ = ["HibariSynthesizer"]

_MODEL: Final = "hibari heart"
_SHA256: Final = "5f70741d4e900f4e85d0037498736cc1b3e1b9a63a13546a5da1e63abf4fccd8"
_LONGEST_TEXT: Final = 1_000
_SEED: Final = 0
"""Of the breath noise: the same text gives the same samples, so a reply can go on in another process."""


class HibariSynthesizer:
    """Speaks in the shared worker threads; a sentence takes 25-100 ms on one core.

    Raises ModelUnavailable where package or voice are missing or the voice is another one.
    """

    def __init__(self, pool: WorkerPool) -> None:
        path = find_model(_MODEL, "hibari", "assets/hibari.onnx", _SHA256)
        hibari: Any = import_engine(_MODEL, "hibari")  # the package has no types
        self._voice = hibari.Hibari(voice="heart", model=str(path), threads=1)
        self._pool = pool
        # The package's front end fills caches while it reads and promises nothing about threads. It takes a few milliseconds
        # of pure Python, which the interpreter lock would not let run in parallel anyway.
        self._reading = threading.Lock()

    @property
    def sample_rate_hz(self) -> int:
        return 24_000

    async def synthesize(self, text: str, *, is_first: bool = False) -> Samples:
        """As the port: ValueError above 1,000 characters. `is_first`: a caller waits in silence for this one, it goes first.

        Speech that runs cannot be stopped: a cancelled wait drops its result. Raises EngineBusy where too much waits already.
        """
        if len(text) > _LONGEST_TEXT:
            raise ValueError(f"a text has {len(text)} characters; allowed: at most {_LONGEST_TEXT}")
        spoken = speakable(text)
        if not any(character.isalnum() for character in spoken):
            return np.zeros(0, np.int16)
        priority = Priority.FIRST_SPEECH if is_first else Priority.SPEECH
        return await self._pool.run(priority, lambda: self.speak(spoken))

    def speak(self, text: str) -> Samples:
        """What `synthesize` does to a speakable text, blocking; may run in several threads at once."""
        with self._reading:
            sentences = self._voice.phonemize(text)
        parts = [self._voice.from_phonemes(phonemes, seed=_SEED) for phonemes in sentences]
        if not parts:
            return np.zeros(0, np.int16)
        samples: Samples = (np.clip(np.concatenate(parts), -1.0, 1.0) * 32767.0).astype(np.int16)
        return samples

    def warm_up(self) -> None:
        """Speaks a sentence with a word that is in no lexicon, so that every part of the package is loaded. Blocks."""
        self.speak("Switchboard is ready at 7:30, zorblaxian.")
