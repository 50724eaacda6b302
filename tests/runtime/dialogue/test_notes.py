"""Notes come back as they are, or are refused."""

from __future__ import annotations

import pytest

from runtime.dialogue.agent import Json
from runtime.dialogue.notes import Notes, drop_unsound


def test_notes_are_a_mapping_over_what_is_kept() -> None:
    kept: dict[str, Json] = {"a": 1}
    notes = Notes(kept)
    notes["b"] = [1, "x", None]
    del notes["a"]
    assert notes == {"b": [1, "x", None]} == kept
    assert "x" not in repr(notes)


@pytest.mark.parametrize("value", [(1, 2), {1}, float("nan"), b"x", {1: 2}, ["\ud800"]])
def test_what_is_no_json_is_refused_where_it_is_noted(value: Json) -> None:
    kept: dict[str, Json] = {"a": 1}
    with pytest.raises(TypeError, match=r"memory\['a'\]"):
        Notes(kept)["a"] = value
    assert kept == {"a": 1}


def test_what_has_become_no_json_is_dropped_and_named() -> None:
    kept = {"sound": [1], "unsound": [{1}]}
    assert drop_unsound(kept) == [
        "memory['unsound'][0] is a set; allowed: JSON values (bool, int, float, str, list, dict with text keys, None)"
    ]
    assert kept == {"sound": [1]}
