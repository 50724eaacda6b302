"""What comes from a client or a model as JSON, and what of an agent's notes would come back from it as it is."""

from __future__ import annotations

import datetime
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.dialogue.strict_json import problem_of, read_json

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.parametrize("text", ["NaN", "-Infinity", "1e999", "[" * 100_000, "{", "", '{"a": NaN}'])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"JSON|double|deep|Expecting"):
        read_json(text)


def test_half_characters_are_made_whole() -> None:
    assert read_json('{"\\ud800": ["\\ud83d\\ude00", "\\udc00"]}') == {"\ufffd": ["\U0001f600", "\ufffd"]}


@given(_JSON)
def test_json_values_survive(value: object) -> None:
    assert problem_of(value, "memory") is None
    assert read_json(json.dumps(value)) == value


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ({"a": (1, 2)}, "memory['a'] is a tuple"),
        ({"a": [0, {1}]}, "memory['a'][1] is a set"),
        ({"a": math.nan}, "memory['a'] is nan"),
        ({"a": {1: 2}}, "memory['a'] has a key that is no text"),
        ({"a": "\ud800"}, "memory['a'] holds half a character"),
        ({"a": datetime.date(2026, 1, 1)}, "memory['a'] is a date"),
        ({"a": b"x"}, "memory['a'] is a bytes"),
    ],
)
def test_what_would_come_back_as_something_else_is_named(value: object, where: str) -> None:
    problem = problem_of(value, "memory")
    assert problem is not None
    assert problem.startswith(where)


def test_what_holds_itself_is_too_deep() -> None:
    value: list[object] = []
    value.append(value)
    assert "nested deeper" in str(problem_of(value, "memory"))
