"""JSON as RFC 8259 has it, with what Python's reader takes besides refused, and what a value must be to survive as JSON. Pure."""

from __future__ import annotations

import json
import math
from typing import Final, NoReturn

from runtime.dialogue.agent import Json
from runtime.dialogue.unicode_text import whole

__all__ = ["problem_of", "read_json"]

_DEEPEST: Final = 64


def read_json(text: str) -> Json:
    """The value, its texts made whole. Raises ValueError for what is no JSON, a number beyond a double, or too deep a nesting.

    >>> read_json('{"a": [1, "\\\\ud800"]}') == {"a": [1, "\\ufffd"]}
    True
    """
    try:
        value: Json = json.loads(text, parse_constant=_no_constant, parse_float=_finite)
        return _whole(value)
    except RecursionError:
        raise ValueError("nested too deep") from None


def problem_of(value: object, where: str, depth: int = 0) -> str | None:
    """Why the value would not come back from JSON as it is, naming the place and what stands there by its type; None: it would.

    >>> problem_of({"a": (1, 2)}, "memory")
    "memory['a'] is a tuple; allowed: JSON values (bool, int, float, str, list, dict with text keys, None)"
    """
    if depth > _DEEPEST:
        return f"{where[:64]} is nested deeper than {_DEEPEST} levels"
    kind, problem = type(value), None
    if kind is dict and isinstance(value, dict):
        for key, each in value.items():
            name = f"{where}[{key!r:.64}]" if type(key) is str else where
            problem = problem_of(each, name, depth + 1) if type(key) is str else f"{where} has a key that is no text"
            problem = problem or problem_of(key, f"a key of {where}")
            if problem is not None:
                return problem
    elif kind is list and isinstance(value, list):
        found = (problem_of(each, f"{where}[{at}]", depth + 1) for at, each in enumerate(value))
        problem = next((each for each in found if each is not None), None)
    elif kind is str and isinstance(value, str):
        problem = f"{where} holds half a character" if whole(value) != value else None
    elif kind is float and isinstance(value, float):
        problem = f"{where} is {value}; allowed: finite numbers" if not math.isfinite(value) else None
    elif not (value is None or kind in (bool, int)):
        allowed = "JSON values (bool, int, float, str, list, dict with text keys, None)"
        problem = f"{where} is a {kind.__name__}; allowed: {allowed}"
    return problem


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError("a number is beyond a double")
    return number


def _whole(value: Json) -> Json:
    if isinstance(value, str):
        return whole(value)
    if isinstance(value, list):
        return [_whole(each) for each in value]
    if isinstance(value, dict):
        return {whole(key): _whole(each) for key, each in value.items()}
    return value
