"""The agent's voice on its way to a loudspeaker."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from clients.call_events import AgentAudio, AgentHeld, AgentResumed, CallEvent, Flushed
from clients.playback import Playback


def _audio(generation: int, *values: int) -> AgentAudio:
    return AgentAudio(generation, np.array(values, np.int16))


def _playback(*events: CallEvent) -> Playback:
    playback = Playback(1_000)
    for event in events:
        playback.hear(event)
    return playback


def _list(samples: NDArray[np.int16]) -> list[int]:
    return [int(sample) for sample in samples]


@given(st.lists(st.lists(st.integers(1, 9), max_size=7), max_size=7), st.lists(st.integers(0, 9), max_size=20))
def test_what_comes_in_goes_out_in_order_however_it_is_cut(pieces: list[list[int]], takes: list[int]) -> None:
    playback = _playback(*(_audio(1, *piece) for piece in pieces))
    played = [sample for count in takes for sample in _list(playback.take(count)) if sample]
    whole = [sample for piece in pieces for sample in piece]
    assert played == whole[: len(played)]
    assert len(played) == min(len(whole), sum(takes))
    assert playback.heard == (1 if played else 0, len(played))


def test_a_hold_is_silence_and_goes_on_where_it_stopped() -> None:
    playback = _playback(_audio(1, 1, 2, 3, 4))
    assert _list(playback.take(2)) == [1, 2]
    playback.hear(AgentHeld(1))
    assert _list(playback.take(2)) == [0, 0]
    assert playback.heard == (1, 2)
    playback.hear(AgentResumed(1))
    assert _list(playback.take(3)) == [3, 4, 0]


def test_a_flush_drops_what_was_not_played_and_ends_the_hold() -> None:  # bug R47, R51
    playback = _playback(_audio(1, 1, 2, 3), AgentHeld(1), Flushed(1), _audio(2, 7))
    assert _list(playback.take(2)) == [7, 0]
    assert playback.heard == (2, 1)


def test_a_flush_of_an_older_reply_leaves_the_newer() -> None:
    playback = _playback(_audio(2, 5), Flushed(1))
    assert _list(playback.take(1)) == [5]


def test_what_waits_is_told_in_milliseconds() -> None:
    playback = _playback(_audio(1, *[1] * 30))
    playback.take(10)
    assert playback.waiting_ms == pytest.approx(20)


def test_a_voice_that_nobody_plays_does_not_pile_up() -> None:
    playback = Playback(8_000)
    for number in range(100):
        playback.hear(AgentAudio(1, np.full(8_000, number, np.int16)))
    assert playback.waiting_ms == 60_000
    assert set(playback.take(8_000)) == {40}  # the newest minute
    assert playback.waiting_ms == 59_000
    playback.hear(Flushed(1))
    assert playback.waiting_ms == 0
