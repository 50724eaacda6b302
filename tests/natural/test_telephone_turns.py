"""Turn decisions on a natural telephone conversation, scored against labels of who speaks when."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from runtime.conversation.ear import Ear, GoesOn, Onset, Pause, Utterance
from runtime.dialogue.session_settings import AudioEncoding, AudioFormat, SessionSettings
from runtime.dialogue.words_hint import silence_factor
from runtime.engines.load import load_engines
from runtime.engines.loaded import LoadedEngines
from runtime.engines.ports import INPUT_RATE_HZ, Samples
from runtime.primitives.clock import MonotonicClock
from tests.support.telephone_speech import Stretch, telephone_call

pytestmark = [pytest.mark.anyio, pytest.mark.models, pytest.mark.slow]

_SETTINGS = SessionSettings("any", input_format=AudioFormat(AudioEncoding.PCM16, INPUT_RATE_HZ))
_SHORTEST_S = 0.6
"""A shorter stretch is a backchannel, or a word that is not a turn."""
_SLACK_S = 0.3
"""Labels by hand are as exact as that."""


@dataclass
class _Decisions:
    onsets_s: list[float] = field(default_factory=list)
    ends: list[tuple[float, float]] = field(default_factory=list)
    """When the voice had ended, and when it was decided."""


async def _decide(engines: LoadedEngines, samples: Samples) -> _Decisions:
    """Words are heard as in a call: in each pause, before the decision."""
    ear, decisions = Ear(engines.vad, _SETTINGS, MonotonicClock()), _Decisions()
    silence = np.zeros(2 * INPUT_RATE_HZ, np.int16)
    for frame in ear.feed(np.concatenate([samples, silence]).astype("<i2").tobytes()):
        match heard := await ear.hear(frame):
            case Onset():
                decisions.onsets_s.append(heard.frame * 0.032)
            case Pause(utterance):
                words = await engines.recognizer.recognize(utterance.samples)
                ear.endpointer.hint(silence_factor(words.text))
            case Utterance():
                decisions.ends.append((heard.voiced_until_ms / 1_000, heard.media_time_ms / 1_000))
            case GoesOn() | None:
                pass
    return decisions


def _is_within(moment_s: float, turn: Stretch) -> bool:
    return turn.begins_s + _SLACK_S < moment_s < turn.ends_s - _SLACK_S


async def test_turns_end_where_they_end_and_nowhere_else(capsys: pytest.CaptureFixture[str]) -> None:
    call = telephone_call()
    engines = load_engines()
    try:
        delays_s: list[float] = []
        too_early, missed, turns = 0, 0, 0
        for speaker in call.stretches:
            decisions = await _decide(engines, call.channel(speaker))
            for turn in call.turns(speaker):
                if turn.ends_s - turn.begins_s < _SHORTEST_S:
                    continue
                turns += 1
                too_early += sum(_is_within(decided_s, turn) for _, decided_s in decisions.ends)
                ends_s = [decided for voiced, decided in decisions.ends if abs(voiced - turn.ends_s) < 2 * _SLACK_S]
                missed += not ends_s
                delays_s += [end_s - turn.ends_s for end_s in ends_s[:1]]
    finally:
        engines.close()
    with capsys.disabled():
        delays = ", ".join(f"{delay_s * 1_000:.0f}" for delay_s in sorted(delays_s))
        print(f"\ntelephone: {turns} turns, {too_early} ended too early, {missed} ends missed; decided after {delays} ms")  # noqa: T201
    assert turns >= 6
    assert too_early <= 1
    assert missed <= 1
    assert sorted(delays_s)[len(delays_s) // 2] < 0.7
