"""The worker pool: order, bound, gauge, cancellation, close."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from runtime.engines.errors import EngineBusy, EngineClosed
from runtime.engines.ports import Urgency
from runtime.engines.worker import Priority, WorkerPool, transcript_priority
from runtime.primitives.errors import Fault

pytestmark = pytest.mark.anyio


@pytest.fixture(params=[("asyncio", {"use_uvloop": False}), ("asyncio", {"use_uvloop": True})], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> object:
    return request.param


class Gate:
    """Holds the pool's only thread until opened, and says when it is held."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.opened = threading.Event()

    def __call__(self) -> None:
        self.entered.set()
        assert self.opened.wait(10)

    async def wait_entered(self) -> None:
        assert await anyio.to_thread.run_sync(self.entered.wait, 10)


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    pool = WorkerPool(threads=1, queue_limit=8)
    yield pool
    pool.close()


async def until_waiting(pool: WorkerPool, count: int) -> None:
    while pool.waiting() != count:
        await anyio.lowlevel.checkpoint()


async def test_it_answers_the_value_or_raises_the_error(pool: WorkerPool) -> None:
    def fail() -> None:
        raise KeyError("x")

    assert await pool.run(Priority.SPEECH, lambda: 7) == 7
    with pytest.raises(KeyError):
        await pool.run(Priority.SPEECH, fail)
    assert await pool.run(Priority.SPEECH, lambda: threading.current_thread().name) == "engines-0"


async def test_even_a_system_exit_reaches_the_waiter_and_leaves_the_thread_alive(pool: WorkerPool) -> None:
    def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        await pool.run(Priority.SPEECH, leave)
    assert await pool.run(Priority.SPEECH, lambda: 1) == 1


async def test_priority_first_then_arrival(pool: WorkerPool) -> None:
    gate, order = Gate(), []

    def note(word: str) -> Callable[[], None]:
        return lambda: order.append(word)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pool.run, Priority.SPEECH, gate)
        await gate.wait_entered()
        arrivals = [
            (Priority.SPEECH, "speech 1"),
            (Priority.TRANSCRIPT, "transcript 1"),
            (Priority.FIRST_SPEECH, "first 1"),
            (Priority.TRANSCRIPT, "transcript 2"),
            (Priority.FIRST_SPEECH, "first 2"),
        ]
        for count, (priority, word) in enumerate(arrivals, 1):
            tasks.start_soon(pool.run, priority, note(word))
            await until_waiting(pool, count)
        gate.opened.set()
    assert order == ["first 1", "first 2", "transcript 1", "transcript 2", "speech 1"]


async def test_work_that_was_wanted_ahead_moves_up_when_somebody_waits_for_it(pool: WorkerPool) -> None:
    gate, order = Gate(), []
    urgency = Urgency(is_awaited=False)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pool.run, Priority.SPEECH, gate)
        await gate.wait_entered()
        tasks.start_soon(pool.run, transcript_priority(Urgency(is_awaited=False)), lambda: order.append("ahead"))
        await until_waiting(pool, 1)
        tasks.start_soon(pool.run, transcript_priority(urgency), lambda: order.append("awaited"))
        await until_waiting(pool, 2)
        tasks.start_soon(pool.run, Priority.SPEECH, lambda: order.append("speech"))
        await until_waiting(pool, 3)
        urgency.is_awaited = True
        gate.opened.set()
    assert order == ["awaited", "speech", "ahead"]


async def test_first_speech_does_not_stand_behind_recognitions() -> None:
    pool, gate = WorkerPool(threads=1, queue_limit=8, quick=1), Gate()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pool.run, Priority.TRANSCRIPT, gate)
        await gate.wait_entered()
        tasks.start_soon(pool.run, Priority.TRANSCRIPT, int)
        await until_waiting(pool, 1)
        with anyio.fail_after(20):
            assert await pool.run(Priority.FIRST_SPEECH, lambda: 7) == 7
        assert pool.waiting() == 1  # the thread on top is for quick work only
        gate.opened.set()
    pool.close()


async def test_a_full_queue_refuses_at_once() -> None:
    pool, gate = WorkerPool(threads=1, queue_limit=2), Gate()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pool.run, Priority.SPEECH, gate)
        await gate.wait_entered()
        assert (pool.waiting(), pool.running()) == (0, 1)
        for count in (1, 2):
            tasks.start_soon(pool.run, Priority.SPEECH, int)
            await until_waiting(pool, count)
        with pytest.raises(EngineBusy) as caught:
            await pool.run(Priority.FIRST_SPEECH, int)
        assert (caught.value.code, caught.value.fault, caught.value.retryable) == ("engine_busy", Fault.CAPACITY, True)
        assert pool.waiting() == 2
        gate.opened.set()
    assert pool.waiting() == 0
    pool.close()


async def test_a_cancelled_wait_takes_its_job_out_of_the_queue(pool: WorkerPool) -> None:
    gate, ran = Gate(), []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pool.run, Priority.SPEECH, gate)
        await gate.wait_entered()
        async with anyio.create_task_group() as doomed:
            doomed.start_soon(pool.run, Priority.SPEECH, lambda: ran.append("cancelled"))
            await until_waiting(pool, 1)
            doomed.cancel_scope.cancel()
        assert pool.waiting() == 0
        tasks.start_soon(pool.run, Priority.SPEECH, lambda: ran.append("kept"))
        await until_waiting(pool, 1)
        gate.opened.set()
    assert ran == ["kept"]


async def test_a_cancelled_wait_leaves_running_work_and_the_pool_alone(pool: WorkerPool) -> None:
    gate = Gate()
    async with anyio.create_task_group() as doomed:
        doomed.start_soon(pool.run, Priority.SPEECH, gate)
        await gate.wait_entered()
        doomed.cancel_scope.cancel()
    gate.opened.set()
    assert await pool.run(Priority.SPEECH, lambda: 5) == 5


async def test_close_fails_what_waits_and_finishes_what_runs() -> None:
    pool, gate, seen = WorkerPool(threads=1, queue_limit=8), Gate(), []

    async def waiter() -> None:
        with pytest.raises(EngineClosed):
            await pool.run(Priority.SPEECH, int)
        seen.append("refused")
        gate.opened.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pool.run, Priority.SPEECH, gate)
        await gate.wait_entered()
        tasks.start_soon(waiter)
        await until_waiting(pool, 1)
        await anyio.to_thread.run_sync(pool.close)
    assert seen == ["refused"]
    with pytest.raises(EngineClosed):
        await pool.run(Priority.SPEECH, int)
    pool.close()


def test_a_result_for_a_loop_that_is_gone_hurts_nobody() -> None:
    pool, gate = WorkerPool(threads=1, queue_limit=8), Gate()

    async def leave_early() -> None:
        async with anyio.create_task_group() as doomed:
            doomed.start_soon(pool.run, Priority.SPEECH, gate)
            await gate.wait_entered()
            doomed.cancel_scope.cancel()

    anyio.run(leave_early)
    gate.opened.set()
    assert anyio.run(pool.run, Priority.SPEECH, lambda: "another loop") == "another loop"
    pool.close()


@pytest.mark.parametrize(("threads", "limit"), [(0, 1), (1, 0)])
def test_impossible_sizes_are_refused(threads: int, limit: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        WorkerPool(threads, limit)
