"""Dotted versions."""

from __future__ import annotations

import pytest

from balancer.routing.version import Version, parse_version


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1", (1,)), ("1.0", (1,)), ("0", ()), ("1.10.3", (1, 10, 3)), ("", None), ("1.", None), ("1.x", None), ("-1", None),
     ("1.2.3.4.5.6.7", None), ("9999999999", None), ("١", None)],
)  # fmt: skip
def test_parse(text: str, expected: Version | None) -> None:
    assert parse_version(text) == expected
