"""What waits for the caller: bounds, order, and that nothing of a dead generation comes out."""

from __future__ import annotations

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.conversation.outbox import Outbox, OutboxFull
from runtime.dialogue.agent_events import AgentEvent, Flush, InputCleared, ReplyAudio, ReplyText, SessionConfigured
from runtime.dialogue.session_settings import ClientTool, SessionSettings

pytestmark = pytest.mark.anyio


async def _all(outbox: Outbox) -> list[AgentEvent]:
    outbox.close()
    events: list[AgentEvent] = []
    while (event := await outbox.get()) is not None:
        events.append(event)
    return events


async def test_events_come_out_in_order() -> None:
    outbox = Outbox(10, 10)
    events: list[AgentEvent] = [InputCleared(), ReplyText(1, "a"), ReplyAudio(1, b"x"), Flush(1)]
    for event in events:
        if isinstance(event, ReplyAudio):
            await outbox.put_audio(event)
        else:
            outbox.put(event)
    assert outbox.waiting == 4
    assert await _all(outbox) == events


async def test_too_many_events_are_an_error_and_audio_waits() -> None:
    outbox = Outbox(3, 2)
    await outbox.put_audio(ReplyAudio(1, b"1"))
    await outbox.put_audio(ReplyAudio(1, b"2"))
    async with anyio.create_task_group() as group:
        group.start_soon(outbox.put_audio, ReplyAudio(1, b"3"))
        await anyio.wait_all_tasks_blocked()
        assert outbox.waiting == 2
        outbox.put(InputCleared())
        with pytest.raises(OutboxFull):
            outbox.put(InputCleared())
        assert await outbox.get() == ReplyAudio(1, b"1")
    assert [event for event in await _all(outbox) if isinstance(event, ReplyAudio)] == [ReplyAudio(1, b"2"), ReplyAudio(1, b"3")]


async def test_the_fence_takes_out_what_is_dead_and_nothing_else() -> None:
    outbox = Outbox(10, 10)
    outbox.put(ReplyText(1, "old"))
    await outbox.put_audio(ReplyAudio(1, b"old"))
    outbox.put(InputCleared())
    await outbox.put_audio(ReplyAudio(2, b"new"))
    assert outbox.fence(1) == 2
    assert await _all(outbox) == [InputCleared(), ReplyAudio(2, b"new")]


async def test_audio_that_waited_for_room_does_not_pass_the_fence() -> None:  # bug R51
    """Room comes and the reply dies in the same step of the event loop: the waiter wakes behind the fence."""
    outbox = Outbox(10, 1)
    await outbox.put_audio(ReplyAudio(1, b"1"))
    async with anyio.create_task_group() as group:
        group.start_soon(outbox.put_audio, ReplyAudio(1, b"2"))
        await anyio.wait_all_tasks_blocked()
        await outbox.get()
        outbox.fence(1)
        outbox.put(Flush(1))
    assert await _all(outbox) == [Flush(1)]


async def test_what_a_dead_reply_still_says_is_ignored() -> None:  # bug R50
    outbox = Outbox(10, 10)
    outbox.fence(2)
    outbox.put(ReplyText(2, "late"))
    await outbox.put_audio(ReplyAudio(1, b"late"))
    await outbox.put_audio(ReplyAudio(3, b"new"))
    assert await _all(outbox) == [ReplyAudio(3, b"new")]


async def test_nothing_is_taken_after_close() -> None:
    outbox = Outbox(10, 1)
    await outbox.put_audio(ReplyAudio(1, b"1"))
    async with anyio.create_task_group() as group:
        group.start_soon(outbox.put_audio, ReplyAudio(1, b"2"))
        await anyio.wait_all_tasks_blocked()
        outbox.close()
    outbox.put(InputCleared())
    assert await _all(outbox) == [ReplyAudio(1, b"1")]


async def test_taken_means_that_the_consumer_came_back() -> None:
    outbox = Outbox(10, 1)
    outbox.put(InputCleared())
    done = anyio.Event()

    async def wait() -> None:
        await outbox.wait_until_taken()
        done.set()

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await outbox.get()
        await anyio.wait_all_tasks_blocked()
        assert not done.is_set()  # it is being sent
        group.start_soon(outbox.get)
        with anyio.fail_after(10):
            await done.wait()
        outbox.close()


@given(st.lists(st.tuples(st.integers(1, 4), st.booleans()), max_size=30), st.integers(0, 4))
def test_after_a_fence_only_what_is_alive_comes_out(puts: list[tuple[int, bool]], fence: int) -> None:
    outbox = Outbox(100, 100)

    async def run() -> list[AgentEvent]:
        for index, (generation, is_audio) in enumerate([*puts, (9, True)]):
            if index == len(puts) // 2:
                outbox.fence(fence)
            event = ReplyAudio(generation, b"") if is_audio else ReplyText(generation, "")
            if isinstance(event, ReplyAudio):
                await outbox.put_audio(event)
            else:
                outbox.put(event)
        return await _all(outbox)

    left = [event for event in anyio.run(run) if isinstance(event, ReplyAudio | ReplyText)]
    kept = [(generation, is_audio) for generation, is_audio in [*puts, (9, True)] if generation > fence]
    assert [(event.generation, isinstance(event, ReplyAudio)) for event in left] == kept


async def test_a_hold_keeps_the_audio_of_a_reply_and_the_order_of_all_else() -> None:  # requirement V2
    outbox = Outbox(10, 10)
    await outbox.put_audio(ReplyAudio(1, b"old"))  # of a reply that is over: its end waits behind it
    outbox.put(ReplyText(2, "a"))
    await outbox.put_audio(ReplyAudio(2, b"1"))
    outbox.put(ReplyText(2, "b"))
    outbox.hold(2)
    outbox.hold(9)  # a second one changes nothing
    await outbox.put_audio(ReplyAudio(2, b"2"))
    outbox.put(ReplyText(2, "c"))
    expected = [ReplyAudio(1, b"old"), ReplyText(2, "a"), ReplyText(2, "b"), ReplyText(2, "c")]
    assert [await outbox.get() for _ in range(4)] == expected
    assert outbox.waiting == 2
    assert list(outbox.contents) == [ReplyAudio(2, b"1"), ReplyAudio(2, b"2")]
    outbox.put(InputCleared())
    outbox.release()
    assert await _all(outbox) == [InputCleared(), ReplyAudio(2, b"1"), ReplyAudio(2, b"2")]


async def test_what_waits_is_bounded_in_size_too() -> None:
    outbox = Outbox(1_000, 10, weight_limit=1_000)
    outbox.put(ReplyText(1, "x" * 5_000))  # alone it is sent, however long
    with pytest.raises(OutboxFull):
        outbox.put(ReplyText(1, "y"))
    await outbox.get()
    for _ in range(3):
        outbox.put(SessionConfigured(SessionSettings("a", tools=(ClientTool("t", "x" * 300),))))
    with pytest.raises(OutboxFull):
        outbox.put(SessionConfigured(SessionSettings("a", tools=(ClientTool("t", "x" * 300),))))
    await outbox.put_audio(ReplyAudio(2, b"x" * 5_000))
    outbox.put(ReplyText(2, "z" * 50))
    assert outbox.fence(2) == 2
    outbox.put(ReplyText(3, "z" * 50))  # what was thrown away does not count


async def test_a_fence_ends_a_hold_and_takes_what_was_held() -> None:
    outbox = Outbox(10, 10)
    await outbox.put_audio(ReplyAudio(1, b"1"))
    outbox.put(InputCleared())
    outbox.hold(1)
    assert outbox.fence(1) == 1
    await outbox.put_audio(ReplyAudio(2, b"2"))
    assert await _all(outbox) == [InputCleared(), ReplyAudio(2, b"2")]


async def test_what_is_held_counts_as_waiting() -> None:
    outbox = Outbox(2, 2)
    await outbox.put_audio(ReplyAudio(1, b"1"))
    outbox.hold(1)
    outbox.put(InputCleared())
    with pytest.raises(OutboxFull):
        outbox.put(InputCleared())
    await outbox.get()


async def test_a_nudge_lets_the_consumer_do_something_else_once() -> None:
    outbox = Outbox(4, 4)
    got: list[object] = []

    async def consume() -> None:
        got.append(await outbox.get())

    async with anyio.create_task_group() as group:
        group.start_soon(consume)
        await anyio.wait_all_tasks_blocked()
        outbox.nudge()
    assert got == [None]
    assert not outbox.is_over
    event = InputCleared()
    outbox.put(event)
    outbox.nudge()
    await consume()
    await consume()
    assert got == [None, None, event]  # the nudge first, and nothing is lost by it
    outbox.close()
    assert outbox.is_over
