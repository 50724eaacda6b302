"""Whether a checkpoint can be gone on from: what no conversation could have written is refused before anything runs. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator

from runtime.dialogue.checkpoint import Checkpoint, EarState, ReplyState, Span, UtteranceState
from runtime.dialogue.turn_table import REPLYING, UNPROVEN, Floor
from runtime.primitives.errors import Fault, VoiceError

__all__ = ["BadCheckpoint", "check_checkpoint"]

_MOST_FRAMES = 16_384
"""Over eight minutes: more than is ever kept of a caller's audio."""
_LONGEST_MS = 10**9
"""Over eleven days."""
_FRAME_SAMPLES = 512
_REPLY_FRAME_MS = 20


class BadCheckpoint(VoiceError):
    """A checkpoint that cannot be read, or must not be written; the text names the place and what is allowed, never a value."""

    code = "bad_checkpoint"
    fault = Fault.US

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"checkpoint: {problem}")


def check_checkpoint(checkpoint: Checkpoint) -> None:
    """Raises BadCheckpoint, which names the first field that contradicts another or lies outside its range."""
    for is_sound, problem in _checks(checkpoint):
        if not is_sound:
            raise BadCheckpoint(problem)


def _checks(of: Checkpoint) -> Iterator[tuple[bool, str]]:
    turns, ear = of.turns, of.turns.ear
    yield 0 <= of.applied < 2**53, "applied; allowed: 0 and up"
    yield 0 <= of.audio_from <= of.applied + 1, "audio_from; allowed: 0 to applied + 1"
    yield 0 <= of.base_frame <= ear.frame + 1, "base_frame; allowed: 0 to ear.frame + 1"
    yield 0 <= of.skip_samples < _MOST_FRAMES * _FRAME_SAMPLES, "skip_samples; allowed: 0 to eight minutes"
    yield 0 <= of.age_ms < _LONGEST_MS, "age_ms; allowed: 0 to eleven days"
    yield 0 <= of.idle_ms < _LONGEST_MS, "idle_ms; allowed: 0 to eleven days"
    yield 0 <= turns.generation < 2**31, "turns.generation; allowed: 0 and up"
    yield 0 <= turns.turn < 2**31, "turns.turn; allowed: 0 and up"
    yield turns.items[0] >= 0, "turns.items; allowed: a count of 0 and up"
    yield all(number >= 0 for number in turns.silent_caller), "turns.silent_caller; allowed: 0 and up"
    yield (turns.reply is not None) == (turns.floor in REPLYING), "turns.reply; allowed: exactly where the floor is the agent's"
    yield turns.floor is not Floor.TRANSCRIBING or bool(turns.commits), "turns.commits; allowed: some, while transcribing"
    yield turns.held_turn is None or turns.floor in UNPROVEN, "turns.held_turn; allowed: over a reply"
    yield not turns.hangs_up or turns.last_reply is not None, "turns.hangs_up; allowed: after a reply"
    yield from _of_ear(ear)
    if turns.onset is not None:
        yield 0 <= turns.onset.frame <= ear.frame, "turns.onset.frame; allowed: 0 to ear.frame"
        yield 0 <= turns.onset.age_ms < _LONGEST_MS, "turns.onset.age_ms; allowed: 0 to eleven days"
    yield from _of_spans(ear.earlier, of, "turns.ear.earlier")
    if turns.held_turn is not None:
        yield from _of_utterance(turns.held_turn, of, "turns.held_turn")
    for at, commit in enumerate(turns.commits):
        yield from _of_utterance(commit.utterance, of, f"turns.commits[{at}].utterance")
        yield 0 <= commit.decided_age_ms < _LONGEST_MS, f"turns.commits[{at}].decided_age_ms; allowed: 0 to eleven days"
    for name, reply in (("reply", turns.reply), ("last_reply", turns.last_reply)):
        if reply is not None:
            yield from _of_reply(reply, of, f"turns.{name}")
    yield turns.reply is None or turns.reply.generation == turns.generation, "turns.reply.generation; allowed: the newest"


def _of_ear(ear: EarState) -> Iterator[tuple[bool, str]]:
    state, where = ear.endpointer, "turns.ear"
    yield -1 <= ear.frame < 2**40, f"{where}.frame; allowed: -1 and up"
    yield 0 <= ear.first_frame <= ear.frame + 1, f"{where}.first_frame; allowed: 0 to frame + 1"
    yield ear.frame - ear.first_frame < _MOST_FRAMES, f"{where}.first_frame; allowed: at most {_MOST_FRAMES} frames back"
    yield 0 <= ear.rest_samples < _FRAME_SAMPLES, f"{where}.rest_samples; allowed: 0 to {_FRAME_SAMPLES - 1}"
    yield 0 <= ear.belief <= 1, f"{where}.belief; allowed: 0 to 1"
    yield ear.voiced_age_ms >= 0, f"{where}.voiced_age_ms; allowed: 0 and up"
    yield -1 <= state.frame <= ear.frame, f"{where}.endpointer.frame; allowed: -1 to ear.frame"
    yield -1 <= state.last_voiced <= state.frame, f"{where}.endpointer.last_voiced; allowed: -1 to frame"
    yield -1 <= state.ended_at <= state.frame, f"{where}.endpointer.ended_at; allowed: -1 to frame"
    yield 0 <= state.row <= state.frame + 1, f"{where}.endpointer.row; allowed: 0 to frame + 1"
    yield 0 <= state.voiced <= state.frame + 1, f"{where}.endpointer.voiced; allowed: 0 to frame + 1"
    yield 0 < state.factor < 10, f"{where}.endpointer.factor; allowed: above 0 and below 10"
    yield all(0 <= belief <= 1 for belief in state.beliefs), f"{where}.endpointer.beliefs; allowed: 0 to 1"
    yield all(math.isfinite(each) and 0 <= each < 1e6 for each in state.pauses), f"{where}.endpointer.pauses; allowed: 0 to 1e6"


def _of_reply(reply: ReplyState, of: Checkpoint, where: str) -> Iterator[tuple[bool, str]]:
    sent_ms = reply.sent_frames * _REPLY_FRAME_MS
    yield 1 <= reply.generation <= of.turns.generation, f"{where}.generation; allowed: 1 to the newest"
    yield 0 <= sent_ms < _LONGEST_MS, f"{where}.sent_frames; allowed: 0 and up"
    yield 0 <= reply.heard_ms <= sent_ms, f"{where}.heard_ms; allowed: 0 to what was sent"
    yield (
        all(piece.frames >= 0 and piece.audio_ms >= 0 for piece in reply.pieces),
        f"{where}.pieces; allowed: lengths of 0 and up",
    )
    yield reply.silences >= 0, f"{where}.silences; allowed: 0 and up"
    yield 0 <= reply.tools_told[1] <= reply.tools_told[0], f"{where}.tools_told; allowed: no more outcomes than tools"
    before = reply.said_before
    yield before is None or 0 <= before <= len(of.turns.history), f"{where}.said_before; allowed: 0 to the history's length"
    if reply.answered is not None:
        yield from _of_utterance(reply.answered.utterance, of, f"{where}.answered.utterance")


def _of_utterance(utterance: UtteranceState, of: Checkpoint, where: str) -> Iterator[tuple[bool, str]]:
    yield utterance.voiced_age_ms >= 0, f"{where}.voiced_age_ms; allowed: 0 and up"
    yield 0 <= utterance.voiced_until_ms <= utterance.media_time_ms, f"{where}.voiced_until_ms; allowed: 0 to media_time_ms"
    yield from _of_spans(utterance.spans, of, f"{where}.spans")


def _of_spans(spans: tuple[Span, ...], of: Checkpoint, where: str) -> Iterator[tuple[bool, str]]:
    end = of.turns.ear.frame + 1
    yield all(of.base_frame <= first <= last <= end for first, last in spans), f"{where}; allowed: frames from base_frame on"
