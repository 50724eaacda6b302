"""What the caller's turns say, and the replies that are due to them: each is given once, or refused.

A turn that is over is on its way to words. The reply to it is wanted by itself, by the client, or not at all; where it cannot
begin when the words are there, because the caller goes on or a reply runs that nobody may interrupt, it waits.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from runtime.conversation.commits import Commit, Commits
from runtime.conversation.floor_keeper import FloorKeeper
from runtime.conversation.ports import CallParts
from runtime.conversation.reply import Answered
from runtime.conversation.speaker import Speaker
from runtime.conversation.transcripts import Transcript
from runtime.conversation.turn_clock import TurnClock
from runtime.dialogue.agent import TurnCause
from runtime.dialogue.agent_events import SoftError, TranscriptFailed, TranscriptReady
from runtime.dialogue.caller_events import RequestReply
from runtime.dialogue.context import Context
from runtime.dialogue.session_settings import SessionSettings
from runtime.dialogue.turn_table import Action, Floor, Happening
from runtime.dialogue.wishes import Wish, joined

__all__ = ["Answers"]

_SHORTEST_QUESTIONABLE_MS: Final = 1_000
"""Without words, anything shorter is a cough or a click that no agent should ask about."""


class Answers:
    """Args:
    settings: the session's, as they are now.
    happen: steps the turn table.

    Attributes:
        commits: turns on their way to words.
        waiting: a reply that is due and cannot begin yet.
    """

    def __init__(
        self,
        parts: CallParts,
        context: Context,
        speaker: Speaker,
        keeper: FloorKeeper,
        settings: Callable[[], SessionSettings],
        happen: Callable[[Happening], Action],
    ) -> None:
        self.commits = Commits()
        self.waiting: Wish | None = None
        self._stage = parts.stage
        self._clock = parts.clock
        self._context = context
        self._speaker = speaker
        self._keeper = keeper
        self._settings = settings
        self._happen = happen

    def expect(self, transcript: Transcript, item_id: str, previous_item_id: str) -> None:
        """A turn is over, and these will be its words."""
        vad = self._settings().turn_detection
        own = Wish() if vad is not None and vad.creates_response else None
        wish, self.waiting = joined(self.waiting, own), None
        clock = TurnClock(transcript.utterance.voiced_until_ns, self._clock.now_ns())
        self.commits.add(Commit(transcript, item_id, previous_item_id, clock, wish))
        self.words_came()

    def words_came(self) -> None:
        """To some turn."""
        while (commit := self.commits.take_done()) is not None:
            self._words(commit)

    def withdraw(self) -> Commit:
        """The last turn was not over: what was due to it is due to the one that it is part of."""
        commit = self.commits.withdraw()
        self.waiting = joined(self.waiting, commit.wish)
        return commit

    def ask(self, request: RequestReply) -> bool:
        """The client asks for a reply. False where it is refused: one runs, or was asked for, or the caller speaks."""
        if any(wish.is_asked for wish in self._wishes()):
            return False
        if self._keeper.floor is Floor.TRANSCRIBING and self.commits:
            self.commits.last.wish = joined(self.commits.last.wish, Wish(request, TurnCause.TYPED, is_asked=True))
            return True
        return self.begin(Wish(request, TurnCause.TYPED, is_asked=True, has_words=True))

    def cancel(self) -> bool:
        """The client does not want any more what it asked for. False where nothing that has not begun was asked for."""
        asked = [wish for wish in self._wishes() if wish.is_asked]
        if not asked:
            return False
        if self.waiting in asked:
            self.waiting = None
        for commit in self.commits:
            if commit.wish in asked:
                commit.wish = None
        self._speaker.decline(asked[0].request)
        return True

    def due(self, wish: Wish) -> None:
        """A reply is due as soon as it can be given."""
        if self._keeper.floor is Floor.TRANSCRIBING and self.commits:
            self.commits.last.wish = joined(self.commits.last.wish, wish)
        else:
            self.waiting = joined(self.waiting, wish)
            self.give()

    def give(self) -> None:
        """Begins the reply that waits, if nobody has the floor."""
        if self._keeper.floor is Floor.LISTENING and self.waiting is not None:
            wish, self.waiting = self.waiting, None
            if wish.is_due:
                self.begin(wish)

    def begin(self, wish: Wish, silences: int = 0) -> bool:
        """Begins a reply now, to what was said last. False where the floor does not allow it."""
        if self._happen(Happening.REQUEST) is not Action.REPLY:
            return False
        now_ns = self._clock.now_ns()
        clock = TurnClock(now_ns, now_ns, now_ns)
        self._speaker.answer(
            self._settings(), clock, None, wish.request, cause=wish.cause, has_words=wish.has_words, silences=silences
        )
        return True

    def _wishes(self) -> list[Wish]:
        wishes = [self.waiting, *(commit.wish for commit in self.commits)]
        return [wish for wish in wishes if wish is not None]

    def _words(self, commit: Commit) -> None:
        transcript, wish = commit.transcript, commit.wish
        text, audio_ms = transcript.text, transcript.utterance.audio_ms
        commit.clock.transcript_ns = self._clock.now_ns()
        if text is None:
            event_id = wish.request.event_id if wish is not None else ""
            self._stage.emit(TranscriptFailed(commit.item_id, "the recogniser has too much to do"))
            text_of_error = "the recogniser has too much to do; please say that again"
            self._stage.emit(SoftError("engine_busy", text_of_error, event_id))
            wish = wish if wish is not None and wish.has_words else None  # whoever asked was told
        else:
            self._stage.emit(TranscriptReady(commit.item_id, text, audio_ms))
        if text:
            self._context.caller_said(text, commit.item_id)
            self._speaker.farewell.take_back()
            wish = None if wish is None else replace(wish, has_words=True)
        if self.commits:
            self.commits.last.wish = joined(wish, self.commits.last.wish)  # a later turn has the floor
        elif self._keeper.floor is not Floor.TRANSCRIBING:
            self.waiting = joined(wish, self.waiting)
            self.give()
        elif wish is None or not (wish.is_due or audio_ms >= _SHORTEST_QUESTIONABLE_MS):
            self._happen(Happening.NO_WORDS)
        elif self._happen(Happening.WORDS) is Action.REPLY:
            memory = copy.deepcopy(self._speaker.memory)
            answered = Answered(transcript.utterance, commit.item_id, commit.previous_item_id, memory)
            cause = TurnCause.SPOKEN if text else wish.cause
            has_words = wish.has_words
            self._speaker.answer(self._settings(), commit.clock, answered, wish.request, cause=cause, has_words=has_words)
