"""Checkpoints that are believed, and those that are not: what a call could go on with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from balancer.continuity.call_memory import CallMemory, Checkpoint, MemoryRule
from balancer.continuity.intents import IntentName
from runtime.wire.websocket_frames import build_frame

GOOD = Checkpoint(b"state", applied=3, replay_from=2, is_quiet=True, after=7)


def memory(messages: int = 5, most_bytes: int = 1000) -> CallMemory:
    made = CallMemory(MemoryRule(most_bytes, 30_000))
    for number in range(1, messages + 1):
        made.kept.add(build_frame(1, b"x" * 50, bytes(4)), number, False)
    return made


def test_a_call_can_go_on_from_its_first_checkpoint_on() -> None:
    made = memory()
    assert not made.can_restore
    assert made.take(GOOD, 5) == ""
    assert made.can_restore
    assert made.checkpoint == GOOD
    assert made.kept.forgotten_upto == 1


def test_before_the_first_checkpoint_a_call_can_begin_anew_unless_something_was_said_done_or_forgotten() -> None:
    assert memory().can_begin_anew(told=0)
    assert not memory().can_begin_anew(told=1)
    assert not memory(messages=5, most_bytes=200).can_begin_anew(told=0)
    acted = memory()
    acted.intents.begin(1, IntentName("key", "pay", "{}"))
    assert not acted.can_begin_anew(told=0)
    kept = memory()
    assert kept.take(GOOD, 5) == ""
    assert not kept.can_begin_anew(told=0)


def test_messages_that_were_pushed_out_make_it_immovable_until_a_checkpoint_is_past_them() -> None:
    made = memory(messages=5, most_bytes=200)
    assert made.take(GOOD, 5) == ""
    assert not made.can_restore
    assert made.take(replace(GOOD, applied=4, replay_from=5), 5) == ""
    assert made.can_restore


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"applied": 6}, "applied is 6; allowed: 3 to 5"),
        ({"applied": 2}, "applied is 2; allowed: 3 to 5"),
        ({"replay_from": 5}, "replay_from is 5; allowed: 1 to applied \\+ 1 = 4"),
        ({"replay_from": 0}, "replay_from is 0"),
        ({"state": bytes(512 * 1024 + 1)}, "524289 bytes; at most 524288"),
    ],
)
def test_what_cannot_be_is_said_and_changes_nothing(change: dict[str, object], words: str) -> None:
    made = memory()
    made.take(GOOD, 5)
    with pytest.raises(ValueError, match=words):
        raise ValueError(made.take(replace(GOOD, **change), 5))  # type: ignore[arg-type]  # its fields
    assert made.checkpoint == GOOD
    assert made.kept.forgotten_upto == 1


def test_a_checkpoint_that_lasts_is_packed_and_still_the_same() -> None:
    memory = CallMemory(MemoryRule())
    state = b'{"history": "what was said"}' * 100
    assert memory.take(replace(GOOD, state=state), 3) == ""
    second = 10**9
    for now_ns in range(second, 6 * second, second):
        memory.tick(now_ns)
    assert memory.checkpoint is not None
    assert memory.checkpoint.state is state
    memory.tick(7 * second)
    assert memory.checkpoint.is_packed
    assert len(memory.checkpoint.state) < len(state) / 4
    assert memory.checkpoint == replace(GOOD, state=memory.checkpoint.state, is_packed=True)
    assert memory.checkpoint.whole_state == state
    memory.tick(60 * second)  # once is enough
    assert memory.checkpoint.whole_state == state
    assert memory.take(replace(GOOD, state=b"next", applied=3), 3) == ""
    memory.tick(61 * second)
    assert memory.checkpoint.whole_state == memory.checkpoint.state == b"next"
