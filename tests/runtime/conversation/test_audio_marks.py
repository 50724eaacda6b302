"""Which event holds which audio."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runtime.conversation.audio_marks import AudioMarks


def test_nothing_noted_nothing_found() -> None:
    assert AudioMarks().find(0) is None


@given(st.lists(st.integers(1, 8_000), min_size=1, max_size=200), st.integers(0, 10**6))
def test_the_event_begins_at_or_before_and_the_rest_is_skipped(lengths: list[int], position: int) -> None:
    marks, begins = AudioMarks(), [0]
    for ordinal, length in enumerate(lengths, 1):
        marks.note(ordinal, begins[-1])
        begins.append(begins[-1] + length)
    found = marks.find(position)
    assert found is not None
    ordinal, skip = found
    assert begins[ordinal - 1] + skip == position
    if position < begins[-1]:
        assert skip < 3_200 + 8_000  # no more is asked for than between two marks


def test_positions_from_another_beginning_are_moved() -> None:
    marks = AudioMarks()
    marks.note(7, 0)
    marks.move(5_000)
    assert marks.find(5_100) == (7, 100)


@given(st.lists(st.integers(1, 8_000), min_size=1, max_size=200), st.integers(0, 10**6), st.integers(0, 10**6))
def test_what_was_forgotten_is_not_needed_for_what_is_later(lengths: list[int], forgotten: int, later: int) -> None:
    marks, pruned, begins = AudioMarks(), AudioMarks(), 0
    for ordinal, length in enumerate(lengths, 1):
        for each in (marks, pruned):
            each.note(ordinal, begins)
        begins += length
    pruned.forget_before(forgotten)
    assert pruned.find(forgotten + later) == marks.find(forgotten + later)


def test_what_is_forgotten_takes_no_room() -> None:
    marks = AudioMarks()
    for ordinal in range(500):
        marks.note(ordinal, ordinal * 3_200)
    marks.forget_before(499 * 3_200)
    assert len(marks) == 1
