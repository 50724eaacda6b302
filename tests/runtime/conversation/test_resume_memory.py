"""Resume tokens: good once, one a session, bounded."""

from __future__ import annotations

import itertools

import pytest

from runtime.conversation.resume_memory import ResumeMemory


def _memory(limit: int = 10) -> ResumeMemory:
    numbers = itertools.count(1)
    return ResumeMemory(lambda: f"token-{next(numbers)}", limit)


def test_a_token_names_its_session_once() -> None:
    memory = _memory()
    token = memory.issue("s")
    assert memory.redeem("another") is None
    assert memory.redeem(token) == "s"
    assert memory.redeem(token) is None


def test_a_newer_token_voids_the_older() -> None:
    memory = _memory()
    older, newer = memory.issue("s"), memory.issue("s")
    assert memory.redeem(older) is None
    assert memory.redeem(newer) == "s"


def test_a_session_that_is_over_is_forgotten() -> None:
    memory = _memory()
    token = memory.issue("s")
    memory.forget("s")
    memory.forget("s")
    assert memory.redeem(token) is None


def test_the_oldest_go_first() -> None:
    memory = _memory(limit=2)
    tokens = [memory.issue(f"s{number}") for number in range(3)]
    assert [memory.redeem(token) for token in tokens] == [None, "s1", "s2"]
    with pytest.raises(ValueError, match="allowed"):
        _memory(limit=0)
