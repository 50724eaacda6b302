"""Values of a client's JSON in the OpenAI Realtime protocol, each checked where it stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["InvalidSession", "flag", "number", "part_of", "whole"]


class InvalidSession(ValueError):
    """A field is not allowed; `parameter` is its path."""

    def __init__(self, parameter: str, value: object, allowed: str) -> None:
        self.parameter = parameter
        shown = repr(value) if not isinstance(value, int) or abs(value) < 10**12 else "a number of many digits"
        super().__init__(f"{parameter} is {shown[:80]}; allowed: {allowed}")


def part_of(holder: Mapping[str, Any], path: str, name: str) -> Mapping[str, Any]:
    """The object under `name`, empty where there is none. Raises InvalidSession, as the others do."""
    value = holder.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidSession(path, value, "an object")
    return value


def number(holder: Mapping[str, Any], path: str, name: str, default: float) -> float:
    value = holder.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e9:
        raise InvalidSession(f"{path}.{name}", value, "a number below a thousand million")
    return float(value)


def whole(holder: Mapping[str, Any], path: str, name: str, default: int) -> int:
    value = number(holder, path, name, default)
    if value != int(value):
        raise InvalidSession(f"{path}.{name}", value, "a whole number of milliseconds")
    return int(value)


def flag(holder: Mapping[str, Any], path: str, name: str, default: bool) -> bool:
    value = holder.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise InvalidSession(f"{path}.{name}", value, "true | false")
    return value
