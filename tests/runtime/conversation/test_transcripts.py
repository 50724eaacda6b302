"""Words ahead of need: taken over where the turn ends there, asked for anew where they are of no use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

import numpy as np
import pytest

from runtime.conversation.ear import Utterance
from runtime.conversation.ports import Stage
from runtime.conversation.transcripts import Transcriber, Transcript
from runtime.engines.errors import EngineBusy
from runtime.engines.ports import INPUT_RATE_HZ, Samples
from runtime.engines.synthetic import SettableRecognizer

pytestmark = pytest.mark.anyio


class _BusyOnce(SettableRecognizer):
    is_busy = True

    async def recognize(self, samples: Samples, urgency: Any = None) -> Any:
        if self.is_busy:
            raise EngineBusy("stt", 1)
        return await super().recognize(samples)


class _Tasks:
    def __init__(self) -> None:
        self.waiting: list[Callable[[], Awaitable[None]]] = []

    def start(self, task: Callable[[], Awaitable[None]]) -> None:
        self.waiting.append(task)

    async def run(self) -> None:
        while self.waiting:
            await self.waiting.pop(0)()


def _utterance(until_ms: int) -> Utterance:
    return Utterance(np.zeros(INPUT_RATE_HZ, np.int16), until_ms, until_ms, 0)


async def test_words_that_failed_ahead_are_asked_for_again_at_the_end() -> None:
    recognizer, tasks, done = _BusyOnce("hello"), _Tasks(), list[Transcript]()
    transcriber = Transcriber(recognizer, cast(Stage, tasks), done.append)
    transcriber.listen_ahead(_utterance(500))
    await tasks.run()
    assert done[0].has_failed
    recognizer.is_busy = False
    transcript = transcriber.commit(_utterance(500))
    await tasks.run()
    assert (transcript.text, transcript.is_committed) == ("hello", True)


async def test_words_ahead_are_taken_over_and_become_urgent() -> None:
    recognizer, tasks, done = SettableRecognizer("hello"), _Tasks(), list[Transcript]()
    transcriber = Transcriber(recognizer, cast(Stage, tasks), done.append)
    transcriber.listen_ahead(_utterance(500))
    transcriber.listen_ahead(_utterance(500), is_awaited=True)
    assert len(tasks.waiting) == 1
    transcript = transcriber.commit(_utterance(500))
    assert transcript.urgency.is_awaited
    await tasks.run()
    assert done == [transcript]
    assert transcriber.commit(_utterance(900)) is not transcript
