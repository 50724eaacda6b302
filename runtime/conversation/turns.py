"""Whose turn it is and what follows from it: drives the turn table between the caller's ear and the agent's speaker.

All changes happen on the event loop between two awaits, so a decision is visible to the next event.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final, assert_never

from runtime.conversation.answers import Answers
from runtime.conversation.ear import Ear, GoesOn, HeardEvent, Onset, Pause, Utterance
from runtime.conversation.farewell import Farewell
from runtime.conversation.floor_keeper import FloorKeeper
from runtime.conversation.hold_watch import HoldWatch
from runtime.conversation.ports import CallParts, Interruption
from runtime.conversation.segments import SHORTEST_SAMPLES
from runtime.conversation.speaker import Speaker
from runtime.conversation.transcripts import Transcriber, Transcript
from runtime.conversation.typed_items import TypedItems
from runtime.dialogue.agent import Role, TurnCause
from runtime.dialogue.agent_events import (
    InputCommitted,
    InputWithdrawn,
    ReplyStatus,
    SoftError,
    SpeechStarted,
    SpeechStopped,
    TranscriptPartial,
)
from runtime.dialogue.caller_events import RequestReply, SayText
from runtime.dialogue.context import Context
from runtime.dialogue.endpointing import OnsetRule
from runtime.dialogue.items import Items
from runtime.dialogue.session_settings import SessionSettings
from runtime.dialogue.silent_caller import SilentCaller
from runtime.dialogue.turn_table import UNPROVEN, Action, Floor, Happening
from runtime.dialogue.wishes import Wish
from runtime.dialogue.words_hint import is_backchannel, silence_factor
from runtime.engines.errors import EngineBusy

__all__ = ["TurnTaker"]

_PROOF_MS: Final = 608.0
"""Voice over the agent that is an interruption whatever it says: "uh-huh" and "okay" are shorter."""
_FINISHED_RATIO: Final = 0.5
_FINISHED_FACTOR: Final = 0.6
"""Of the silence, where a classifier takes the turn to be finished. It errs, so some silence is still asked for."""


class TurnTaker:
    """The turns of one session. Methods other than `hear` and `wait_until_quiet` never wait.

    Attributes:
        items: what the client puts into the conversation and takes out of it.
        settings: the session's, as they are now.
        speaker: the agent's side.
        ear, transcriber, answers: the caller's side: audio, words ahead of need, turns on their way to words and to replies.
        keeper, order, context: who has the floor, the order of items, and what was said.
        partial: the item and words that were told last before its turn was over.
        onset: speech that was not told to the client yet. held_turn: a turn over the reply, while its words decide.
    """

    def __init__(self, parts: CallParts, settings: SessionSettings) -> None:
        self._parts = parts
        self.settings = settings
        self._stage = parts.stage
        self.ear = Ear(parts.engines.vad, settings, parts.clock)
        self.context = Context()
        self.order = Items()
        self.items = TypedItems(self.order, self.context, parts.stage.emit)
        self.transcriber = Transcriber(parts.engines.recognizer, parts.stage, self._transcribed)
        self.keeper = FloorKeeper(parts.observer.speaking)
        farewell = Farewell(parts.stage, self.keeper.wait_until_quiet)
        self.speaker = Speaker(parts, self.context, self.order, farewell, self._first_audio, self._reply_finished)
        self.answers = Answers(parts, self.context, self.speaker, self.keeper, lambda: self.settings, self._happen)
        self._hold_watch = HoldWatch(
            lambda: self._floor in UNPROVEN,
            lambda: self.ear.media_time_ms,
            self._nothing_was_said,
        )
        self.onset: Onset | None = None
        self.held_turn: Utterance | None = None
        self.partial = "", ""
        self.silent_caller = SilentCaller()
        self.configure(settings)

    def configure(self, settings: SessionSettings) -> None:
        """From now on these hold. Where turns are no longer detected, speech that is being heard is only audio to commit."""
        self.settings = settings
        self.speaker.client_tools.declared = {tool.name: tool for tool in settings.tools}
        if settings.turn_detection is None:
            self._listen_no_more()
        self.ear.configure(settings)

    def _listen_no_more(self) -> None:
        if self._floor in UNPROVEN:
            self._happen(Happening.DISPROVEN)
        elif self._floor in (Floor.HEARING, Floor.DECIDING):
            self._happen(Happening.NO_WORDS)
            self.answers.give()

    async def hear(self, pcm: bytes, ordinal: int = 0) -> None:
        """Takes more of the caller's audio, from its event with this ordinal."""
        for frame in self.ear.feed(pcm, ordinal):
            heard = await self.ear.hear(frame, self._onset_rule)
            if heard is not None:
                self._heard(heard)
            elif self._floor in UNPROVEN and self.ear.endpointer.voiced_ms >= _PROOF_MS:
                self._happen(Happening.PROVEN)
            elif self._floor is Floor.LISTENING:
                self._mind_silence()

    def go_on(self) -> None:
        """Lets everything run that ran in another process, after all state was put back."""
        for commit in self.answers.commits:
            self.transcriber.begin(commit.transcript)
        if self.held_turn is not None:
            self.transcriber.listen_ahead(self.held_turn, is_awaited=True)
        elif self.ear.endpointer.is_paused and self._floor in (Floor.DECIDING, *UNPROVEN):
            self.transcriber.listen_ahead(self.ear.paused_utterance())
        if self._floor in UNPROVEN and self.speaker.reply is not None:
            self._stage.hold(self.speaker.reply.generation)
            self._stage.start(self._hold_watch.run)
        if self.speaker.reply is not None:
            self.speaker.start(self.settings)
        elif self.speaker.farewell.is_said:
            self.speaker.hang_up()

    @property
    def is_quiet(self) -> bool:
        """Nobody speaks and nothing is being made."""
        is_idle = self._floor is Floor.LISTENING and not self.answers.commits
        return is_idle and self.speaker.reply is None and not self.speaker.farewell.is_said

    def commit(self, event_id: str) -> None:
        """The client says that what it appended is a turn."""
        utterance = self.ear.commit(SHORTEST_SAMPLES)
        if utterance is None:
            text = "nothing to commit; allowed: at least 100 ms of audio"
            self._stage.emit(SoftError("input_audio_buffer_commit_empty", text, event_id))
        else:
            self._turn_over(utterance)

    def end_input(self) -> None:
        """The caller will say nothing more: open speech is a turn now."""
        utterance = self.ear.commit()
        if utterance is not None:
            self._turn_over(utterance)

    def clear(self) -> None:
        """Forgets what was appended and not committed."""
        self.ear.clear()
        self.order.forget_open()
        if self._floor in (Floor.HEARING, Floor.DECIDING, *UNPROVEN):
            self._happen(Happening.NO_WORDS)
            self.answers.give()

    def add_text(self, said: SayText) -> None:
        """An item of text joins the conversation; the caller's own words keep a call that the agent was about to end."""
        self.items.add(said)
        if said.role is Role.CALLER:
            self.speaker.farewell.take_back()

    def take_keys(self, keys: str) -> None:
        """An entry made on the caller's telephone interrupts as speech does; it is answered with what is being said, or alone."""
        if self._may_interrupt:
            self._happen(Happening.KEYS)
        self.context.caller_said(keys)
        self.speaker.farewell.take_back()
        self.answers.due(Wish(cause=TurnCause.KEYS, has_words=True))

    def request_reply(self, request: RequestReply) -> None:
        if not self.answers.ask(request):
            text = "a reply is running or the caller is speaking; cancel it or wait"
            self._stage.emit(SoftError("conversation_already_has_active_response", text, request.event_id))

    async def wait_until_quiet(self) -> None:
        """Returns when nobody speaks and no reply is on its way."""
        await self.keeper.wait_until_quiet()

    def interrupt(self, event_id: str) -> None:
        """The client wants no reply now: the one that runs ends, or the one that it asked for is not begun."""
        if self._happen(Happening.INTERRUPT) is not Action.NOTHING_TO_CANCEL:
            self._after_reply()
        elif not self.answers.cancel():
            self._stage.emit(SoftError("response_cancel_not_active", "no reply is running", event_id))

    def _heard(self, heard: HeardEvent) -> None:
        match heard:
            case Onset():
                self._began(heard)
            case Pause(utterance):
                if self._happen(Happening.PAUSE) is Action.LISTEN_AHEAD:
                    self.transcriber.listen_ahead(utterance, is_awaited=self._floor in UNPROVEN)
                    self._classify(utterance)
            case GoesOn():
                self._happen(Happening.VOICE)
            case Utterance():
                self._turn_over(heard)
            case _:
                assert_never(heard)

    def _began(self, onset: Onset) -> None:
        self.silent_caller.spoke()
        if self.held_turn is not None:
            # More speech over the reply before the words of the first are there: they count together.
            self.ear.take_back(self.held_turn, onset.frame)
            self.held_turn = None
            self._happen(Happening.VOICE)
            return
        self.onset = onset
        if not self._may_interrupt:
            self._announce()
        elif self.speaker.belongs_to_the_turn(onset):
            self._happen(Happening.GOES_ON)
        else:
            self._happen(Happening.SPEECH)

    @property
    def _floor(self) -> Floor:
        return self.keeper.floor

    @property
    def _onset_rule(self) -> OnsetRule:
        """A hold can be undone, so it need not be sure; a reply that is taken back is made anew, so that must be."""
        is_holdable = self._floor is Floor.SPEAKING and self._may_interrupt and not self.speaker.is_reversible
        return OnsetRule.QUICK if is_holdable else OnsetRule.SURE

    @property
    def _may_interrupt(self) -> bool:
        """Whether what the caller says moves the floor."""
        vad = self.settings.turn_detection
        return vad is None or vad.interrupts_response or self.speaker.reply is None

    def _announce(self) -> None:
        """Speech that was not told to the client yet is told now."""
        if self.onset is not None:
            self._stage.emit(SpeechStarted(self.order.open(), self.onset.media_time_ms))
            self.onset = None

    def _happen(self, happening: Happening) -> Action:
        """Steps the turn table and does what stops or holds something; starting something is left to the one who asked."""
        was, onset = self._floor, self.onset
        action = self.keeper.step(happening)
        match action:
            case Action.KEEP_LISTENING:
                self.transcriber.drop()
            case Action.WITHDRAW:
                self._announce()
                self._withdraw(onset)
            case Action.RETRACT:
                self._retract(onset, was)
            case Action.HOLD | Action.DELAY:
                self._hold(onset)
            case Action.RESUME:
                self._resume()
                if was is Floor.INTERRUPTED:
                    self._parts.observer.interruption_settled(Interruption.RESUMED)
            case Action.BARGE_IN:
                self.speaker.stop(ReplyStatus.INTERRUPTED, self._announce)
            case Action.CANCEL:
                self.speaker.stop(ReplyStatus.CANCELLED, self._announce)
            case _:
                pass
        if self._floor is Floor.HEARING:
            self._announce()
        if was in UNPROVEN and self._floor is Floor.HEARING:
            if was is Floor.INTERRUPTED:
                self._parts.observer.interruption_settled(Interruption.STOPPED)
            self._admit()
        return action

    def _turn_over(self, utterance: Utterance) -> None:
        if self._floor in UNPROVEN:
            self.held_turn = utterance
            self._happen(Happening.SILENCE)
            self.transcriber.listen_ahead(utterance, is_awaited=True)
            return
        if self.order.open_id:
            self._stage.emit(SpeechStopped(self.order.open_id, utterance.media_time_ms, utterance.voiced_until_ms))
        item_id, previous = self.order.commit()
        self._stage.emit(InputCommitted(item_id, previous))
        if self._may_interrupt:
            self._happen(Happening.SILENCE)
        self.answers.expect(self.transcriber.commit(utterance), item_id, previous)

    def _transcribed(self, transcript: Transcript) -> None:
        if transcript.is_committed:
            self.answers.words_came()
        elif self._floor in UNPROVEN:
            # A recogniser with too much to do says nothing: then so short a word is no reason to fall silent.
            is_nothing = is_backchannel(transcript.text or "")
            self._happen(Happening.DISPROVEN if is_nothing else Happening.PROVEN)
        elif self._floor is Floor.DECIDING and transcript.text:
            self.ear.endpointer.hint(silence_factor(transcript.text))
            partial = self.order.open_id, transcript.text
            if self.settings.wants_partials and partial != self.partial:
                self.partial = partial
                self._stage.emit(TranscriptPartial(*partial))

    def _classify(self, utterance: Utterance) -> None:
        """Where there is a classifier, how the utterance sounds may shorten the wait."""
        classifier, paused_at = self._parts.engines.end_of_turn, self.ear.endpointer.last_voiced_frame
        if classifier is None:
            return

        async def classify() -> None:
            with suppress(EngineBusy):  # then the wait is as long as it is without
                ratio = await classifier.finished_ratio(utterance.samples)
                if ratio >= _FINISHED_RATIO and self.ear.endpointer.last_voiced_frame == paused_at:
                    self.ear.endpointer.hint(_FINISHED_FACTOR)

        self._stage.start(classify)

    def _withdraw(self, onset: Onset | None) -> None:
        if self.answers.commits:
            commit = self.answers.withdraw()
            self.order.withdraw(commit.item_id, commit.previous_item_id)
            self._join(commit.transcript.utterance, commit.item_id, onset, Floor.TRANSCRIBING)

    def _retract(self, onset: Onset | None, stage: Floor) -> None:
        answered = self.speaker.retract(self._announce)
        self._join(answered.utterance, answered.item_id, onset, stage)

    def _join(self, utterance: Utterance, item_id: str, onset: Onset | None, stage: Floor) -> None:
        assert onset is not None, "a turn is taken back because speech began"
        self.ear.take_back(utterance, onset.frame)
        self._stage.emit(InputWithdrawn(item_id))
        self._parts.observer.commit_withdrawn(stage)

    def _hold(self, onset: Onset | None) -> None:
        assert onset is not None, "output is held because speech began"
        self.speaker.hold(onset)
        self._stage.start(self._hold_watch.run)

    def _nothing_was_said(self) -> None:
        self._happen(Happening.DISPROVEN)

    def _resume(self) -> None:
        self.onset = self.held_turn = None
        self.transcriber.drop()
        self.ear.dismiss()
        self.speaker.resume()

    def _admit(self) -> None:
        """Speech over the reply has the floor now: it is treated as all speech is, from where it stands."""
        held, self.held_turn = self.held_turn, None
        if held is not None:
            self._turn_over(held)
        elif self.ear.endpointer.is_paused and self.transcriber.is_ahead:
            self._happen(Happening.PAUSE)

    def _first_audio(self) -> None:
        self._happen(Happening.FIRST_AUDIO)

    def _reply_finished(self) -> None:
        self.silent_caller.agent_finished(self.ear.media_time_ms + self._parts.limits.lead_ms)
        self._happen(Happening.FINISHED)
        self._after_reply()

    def _after_reply(self) -> None:
        """Over a reply that nobody may interrupt the caller may have begun to speak, or have said something."""
        if self._floor is not Floor.LISTENING:
            return
        if self.ear.is_hearing_speech:
            self._happen(Happening.SPEECH)
        elif self.answers.commits:
            self._happen(Happening.SILENCE)
        else:
            self.answers.give()

    def _mind_silence(self) -> None:
        vad = self.settings.turn_detection
        silences = self.silent_caller.due(self.ear.media_time_ms, vad.idle_timeout_ms if vad is not None else 0)
        if silences and not self.speaker.farewell.is_said:
            self.answers.begin(Wish(cause=TurnCause.SILENCE), silences)
