"""Takes the turns of one conversation as a value, and goes on from such a value in another process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from runtime.conversation.commits import Commit
from runtime.conversation.ear import Onset, Utterance
from runtime.conversation.kept_audio import KeptAudio
from runtime.conversation.ports import CallParts
from runtime.conversation.reply import Answered, Reply
from runtime.conversation.turn_clock import TurnClock
from runtime.conversation.turns import TurnTaker
from runtime.dialogue.agent_events import AgentEvent
from runtime.dialogue.checkpoint import (
    CHECKPOINT_VERSION,
    AnsweredState,
    Checkpoint,
    CommitState,
    OnsetState,
    ReplyState,
    Span,
    TurnsState,
    UtteranceState,
    WaitingEvent,
)
from runtime.dialogue.silent_caller import SilentCaller
from runtime.dialogue.turn_table import UNPROVEN
from runtime.dialogue.wishes import Wish
from runtime.engines.ports import VAD_FRAME_SAMPLES
from runtime.primitives.clock import NS_PER_MS

__all__ = ["KeptMessage", "checkpoint_of", "resume"]

KeptMessage: TypeAlias = tuple[int, bytes]
"""A caller's message with audio: its ordinal, and the audio as PCM16 at the input format's rate."""


def checkpoint_of(
    parts: CallParts, turns: TurnTaker, applied: int, waiting: Sequence[AgentEvent], ages_ms: tuple[int, int], keys: str
) -> Checkpoint:
    """The conversation between two messages. `waiting`: what was decided and not sent; `ages_ms`: of the session and of its last
    message."""
    state = _captured(turns, parts.clock.now_ns())
    base_frame = _first_frame_needed(state)
    marks, needed_from = turns.ear.marks, base_frame * VAD_FRAME_SAMPLES
    marks.forget_before(needed_from)
    audio_from, skip_samples = marks.find(needed_from) or (applied + 1, 0)
    return Checkpoint(
        version=CHECKPOINT_VERSION,
        session_id=parts.session_id,
        epoch=parts.epoch,
        applied=applied,
        audio_from=audio_from,
        skip_samples=skip_samples,
        base_frame=base_frame,
        settings=turns.settings,
        turns=state,
        age_ms=ages_ms[0],
        idle_ms=ages_ms[1],
        keys=keys,
        waiting=tuple(WaitingEvent(type(event).__name__, event) for event in waiting),
    )


def _captured(turns: TurnTaker, now_ns: int) -> TurnsState:
    reply, last = turns.speaker.reply, turns.speaker.last
    onset = turns.onset
    turns.speaker.check_notes()
    return TurnsState(
        floor=turns.keeper.floor,
        history=tuple(turns.context.history),
        memory=turns.speaker.memory,
        items=turns.order.state,
        generation=turns.speaker.state[0],
        turn=turns.speaker.state[1],
        ear=turns.ear.state,
        commits=tuple(_commit_state(commit, now_ns) for commit in turns.answers.commits),
        reply=None if reply is None else _reply_state(reply, turns, turns.speaker.is_reversible, now_ns),
        last_reply=None if last is None else _reply_state(last, turns, False, now_ns),
        onset=None if onset is None else OnsetState(onset.media_time_ms, onset.frame, (now_ns - onset.began_ns) // NS_PER_MS),
        held_turn=None if turns.held_turn is None else _utterance_state(turns.held_turn, now_ns),
        silent_caller=turns.silent_caller.state,
        hangs_up=turns.speaker.farewell.is_said,
        client_tools=turns.speaker.client_tools.state,
        key_stem=turns.speaker.key_stem,
        waiting_wish=turns.answers.waiting,
        partial=turns.partial,
    )


def _first_frame_needed(state: TurnsState) -> int:
    """The first frame of the caller's audio that a resumption needs."""
    spans: list[Span] = [*state.ear.earlier, (state.ear.first_frame, state.ear.frame + 1)]
    utterances = [commit.utterance for commit in state.commits]
    if state.held_turn is not None:
        utterances.append(state.held_turn)
    if state.reply is not None and state.reply.answered is not None:
        utterances.append(state.reply.answered.utterance)
    spans += [span for utterance in utterances for span in utterance.spans]
    return max(0, min(first for first, _ in spans))


async def resume(turns: TurnTaker, checkpoint: Checkpoint, audio: Sequence[KeptMessage], now_ns: int) -> None:
    """Puts everything back; nothing runs before `TurnTaker.go_on`. `audio`: of the messages from `audio_from` to `applied`.

    Raises MissingAudio.
    """
    state = checkpoint.turns
    fed = [sample for ordinal, pcm in audio for sample in turns.ear.feed(pcm, ordinal)]
    marks, fed_rest = turns.ear.take_fed()
    begins = checkpoint.base_frame * VAD_FRAME_SAMPLES - checkpoint.skip_samples
    marks.move(begins)
    turns.ear.move(begins)
    kept = KeptAudio(checkpoint.base_frame, np.concatenate([*fed, fed_rest])[checkpoint.skip_samples :])

    def utterance(of: UtteranceState) -> Utterance:
        voiced_ns = now_ns - of.voiced_age_ms * NS_PER_MS
        return Utterance(kept.samples(of.spans), of.media_time_ms, of.voiced_until_ms, voiced_ns, of.spans)

    await turns.ear.restore(state.ear, kept, marks)
    turns.keeper.floor = state.floor
    turns.context.restore(state.history)
    turns.order.restore(state.items)
    turns.silent_caller = SilentCaller(*state.silent_caller)
    turns.held_turn = None if state.held_turn is None else utterance(state.held_turn)
    if state.onset is not None:
        began_ns = now_ns - state.onset.age_ms * NS_PER_MS
        turns.onset = Onset(state.onset.media_time_ms, began_ns, state.onset.frame)
    for commit in state.commits:
        spoken = utterance(commit.utterance)
        clock = TurnClock(spoken.voiced_until_ns, now_ns - commit.decided_age_ms * NS_PER_MS)
        wish = commit.due or (None if commit.wish is None else Wish(commit.wish))
        turns.answers.commits.add(
            Commit(turns.transcriber.committed(spoken), commit.item_id, commit.previous_item_id, clock, wish)
        )
    answered = None
    if state.reply is not None and state.reply.answered is not None:
        of = state.reply.answered
        answered = Answered(utterance(of.utterance), of.item_id, of.previous_item_id, dict(of.memory))
    numbers = (state.generation, state.turn)
    turns.speaker.key_stem = state.key_stem or checkpoint.session_id
    turns.speaker.restore(numbers, state.memory, checkpoint.settings, state.reply, answered, state.last_reply)
    turns.speaker.farewell.is_said = state.hangs_up
    turns.answers.waiting = state.waiting_wish
    turns.partial = state.partial
    turns.speaker.client_tools.go_on(state.client_tools)
    if state.floor in UNPROVEN and turns.speaker.reply is not None:
        turns.speaker.reply.mouth.hold()


def _utterance_state(utterance: Utterance, now_ns: int) -> UtteranceState:
    age_ms = (now_ns - utterance.voiced_until_ns) // NS_PER_MS
    return UtteranceState(utterance.spans, utterance.media_time_ms, utterance.voiced_until_ms, age_ms)


def _commit_state(commit: Commit, now_ns: int) -> CommitState:
    return CommitState(
        _utterance_state(commit.transcript.utterance, now_ns),
        commit.item_id,
        commit.previous_item_id,
        (now_ns - commit.clock.decided_ns) // NS_PER_MS,
        None if commit.wish is None else commit.wish.request,
        commit.wish,
    )


def _reply_state(reply: Reply, turns: TurnTaker, is_reversible: bool, now_ns: int) -> ReplyState:
    answered = None
    if is_reversible and reply.answered is not None:
        of = reply.answered
        answered = AnsweredState(_utterance_state(of.utterance, now_ns), of.item_id, of.previous_item_id, of.memory)
    return reply.state(answered, len(turns.context.up_to(reply.asked.newest)))
