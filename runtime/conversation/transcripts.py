"""Utterances on their way to words: begun while the silence is still being waited for, taken over when the turn ends there."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from runtime.conversation.ear import Utterance
from runtime.conversation.ports import Stage
from runtime.conversation.segments import recognize
from runtime.engines.errors import EngineBusy
from runtime.engines.ports import SpeechRecognizer, Urgency

__all__ = ["Transcriber", "Transcript"]


class Transcript:
    """One utterance and, once they are there, its words.

    Attributes:
        text: None until it is done, and where the recogniser had too much to do.
        has_failed: the recogniser had too much to do.
        is_committed: the turn ended with this utterance; else its words are wanted ahead of that.
    """

    def __init__(self, utterance: Utterance, urgency: Urgency) -> None:
        self.utterance = utterance
        self.urgency = urgency
        self.text: str | None = None
        self.has_failed = False
        self.is_committed = False
        self.scope = anyio.CancelScope()

    @property
    def is_done(self) -> bool:
        return self.text is not None or self.has_failed


class Transcriber:
    """At most one transcript runs ahead. `done` is told of each that is finished and was not dropped, on the event loop."""

    def __init__(self, recognizer: SpeechRecognizer, stage: Stage, done: Callable[[Transcript], None]) -> None:
        self._recognizer = recognizer
        self._stage = stage
        self._done = done
        self._ahead: Transcript | None = None

    @property
    def is_ahead(self) -> bool:
        """Whether words of a pause are wanted, on their way or there."""
        return self._ahead is not None

    def listen_ahead(self, utterance: Utterance, *, is_awaited: bool = False) -> None:
        """The words so far are wanted, behind all that somebody waits for; `is_awaited`: in silence, until they are there."""
        if self._ahead is not None and self._ahead.utterance.voiced_until_ms == utterance.voiced_until_ms:
            self._ahead.urgency.is_awaited |= is_awaited
            return
        self.drop()
        self._ahead = Transcript(utterance, Urgency(is_awaited=is_awaited))
        self._start(self._ahead)

    def drop(self) -> None:
        """What runs ahead is not the whole turn. A decode that runs goes on in its thread, its result is thrown away."""
        if self._ahead is not None:
            self._ahead.scope.cancel()
            self._ahead = None

    def commit(self, utterance: Utterance) -> Transcript:
        """The turn ended with this utterance: what runs ahead for it is taken over, else it is begun now.

        Where its words are there already, `is_done` says so and `done` is not told again.
        """
        transcript = self._ahead
        if transcript is None or transcript.has_failed or transcript.utterance.voiced_until_ms != utterance.voiced_until_ms:
            self.drop()
            transcript = Transcript(utterance, Urgency(is_awaited=True))
            self._start(transcript)
        self._ahead = None
        transcript.is_committed = transcript.urgency.is_awaited = True
        return transcript

    def committed(self, utterance: Utterance) -> Transcript:
        """A transcript that another process had begun; `begin` begins it anew."""
        transcript = Transcript(utterance, Urgency(is_awaited=True))
        transcript.is_committed = True
        return transcript

    def begin(self, transcript: Transcript) -> None:
        self._start(transcript)

    def _start(self, transcript: Transcript) -> None:
        async def run() -> None:
            with transcript.scope:
                try:
                    transcript.text = await recognize(self._recognizer, transcript.utterance.samples, transcript.urgency)
                except EngineBusy:
                    transcript.has_failed = True
                self._done(transcript)

        self._stage.start(run)
