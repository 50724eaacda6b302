"""What may be a name."""

from __future__ import annotations

import pytest

from runtime.primitives.ids import as_id_stem, is_machine_id, is_runtime_id, is_session_id


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", True),
        ("A.b:c_d-9", True),
        ("x" * 128, True),
        ("x" * 129, False),
        ("", False),
        ("a b", False),
        ("ä", False),
        ("a\n", False),
    ],
)
def test_session_ids(text: str, expected: bool) -> None:
    assert is_session_id(text) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("r", True),
        ("r-1", True),
        ("1r", True),
        ("x" * 64, True),
        ("x" * 65, False),
        ("-r", False),
        ("R", False),
        ("r_1", False),
        ("r\n", False),
    ],
)
def test_runtime_ids(text: str, expected: bool) -> None:
    assert is_runtime_id(text) is expected


@pytest.mark.parametrize(
    ("text", "expected"), [("Rack_7.local", True), ("x" * 64, True), ("x" * 65, False), ("", False), (".", False), ("a/b", False)]
)
def test_machine_ids(text: str, expected: bool) -> None:
    assert is_machine_id(text) is expected


def test_a_machines_runtimes_are_called_after_it() -> None:
    stems = [as_id_stem(name) for name in ("Rack_7.local", "X" * 64)]
    assert all(is_runtime_id(f"{stem}-65535") for stem in stems)
