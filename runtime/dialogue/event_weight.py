"""How much text and data a value holds: what a bound on memory counts. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass

__all__ = ["weight_of"]


def weight_of(value: object) -> int:
    """Characters and bytes of all texts and data in it, through dataclasses, mappings, lists and tuples. Cost: one step a value.

    >>> weight_of({"a": ["bc", b"d", 1]})
    4
    """
    if isinstance(value, (str, bytes)):
        return len(value)
    if isinstance(value, Mapping):
        return sum(weight_of(key) + weight_of(each) for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return sum(weight_of(each) for each in value)
    if is_dataclass(value):
        return sum(weight_of(getattr(value, field.name)) for field in fields(value))
    return 0
