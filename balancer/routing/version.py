"""Versions as dotted whole numbers, compared number by number; missing parts count as 0."""

from __future__ import annotations

__all__ = ["Version", "parse_version"]

Version = tuple[int, ...]


def parse_version(text: str) -> Version | None:
    """None: not a version (1-6 dotted numbers of at most 9 digits). Trailing zeros are dropped, so 1.2 equals 1.2.0.

    >>> parse_version("1.2.0"), parse_version("1.10") > parse_version("1.9"), parse_version("v2"), parse_version("")
    ((1, 2), True, None, None)
    """
    parts = text.split(".")
    if len(parts) > 6 or not all(part.isascii() and part.isdigit() and len(part) <= 9 for part in parts):
        return None
    numbers = [int(part) for part in parts]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
