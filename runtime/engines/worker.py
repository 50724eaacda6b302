"""The native threads that all engines of a process share, and who goes first when they are busy."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Generic, TypeVar

from runtime.engines.completion import Completion
from runtime.engines.errors import EngineBusy, EngineClosed
from runtime.engines.ports import Urgency

__all__ = ["Priority", "WorkerPool", "transcript_priority"]

T = TypeVar("T")

_LOOK_AGAIN_S: Final = 0.01


class Priority(IntEnum):
    """What runs first; equal priorities run in order of arrival.

    A caller who waits in silence comes first; the rest of a reply that already plays can wait a little; what is wanted ahead of
    need waits for all of them.
    """

    FIRST_SPEECH = 10
    END_OF_TURN = 20
    TRANSCRIPT = 30
    SPEECH = 40
    TRANSCRIPT_AHEAD = 50


def transcript_priority(urgency: Urgency | None) -> Callable[[], Priority]:
    """For `WorkerPool.run`: follows the urgency while the job waits."""

    def priority() -> Priority:
        return Priority.TRANSCRIPT if urgency is None or urgency.is_awaited else Priority.TRANSCRIPT_AHEAD

    return priority


@dataclass(slots=True, eq=False)
class _Job(Generic[T]):
    """`runs_as`: the priority with which it was begun."""

    priority: Callable[[], Priority]
    work: Callable[[], T]
    completion: Completion[T]
    runs_as: Priority = Priority.SPEECH

    def run(self) -> None:
        try:
            value = self.work()
        except BaseException as error:  # whatever it is belongs to the waiter, who would otherwise wait for ever
            self.completion.fail(error)
        else:
            self.completion.succeed(value)


class WorkerPool:
    """A fixed number of threads taking jobs from one bounded priority queue.

    Built without a running event loop; `run` may be awaited from any asyncio or uvloop loop. The threads are daemons, so that a
    process that dies without `close` is not held up.

    Args:
        threads: how many jobs run at once, at least 1. Inference is native code that releases the interpreter lock.
        queue_limit: how many jobs may wait, at least 1.
        quick: threads on top for what takes some hundredths of a second and is waited for in silence (first speech, end of turn),
            so that it need not stand behind a recognition. A work of a fifth of a second cannot be stopped once it runs.
    """

    def __init__(self, threads: int, queue_limit: int, name: str = "engines", quick: int = 0) -> None:
        if threads < 1 or queue_limit < 1:
            raise ValueError(f"threads is {threads}, queue_limit is {queue_limit}; allowed: at least 1")
        self._name = name
        self._queue_limit = queue_limit
        self._changed = threading.Condition()
        self._queue: list[_Job[object]] = []
        self._at_work: list[_Job[object]] = []
        self._slow_limit = threads
        self._is_closed = False
        self._threads = [threading.Thread(target=self._work, name=f"{name}-{n}", daemon=True) for n in range(threads + quick)]
        for thread in self._threads:
            thread.start()

    def _may_run(self, priority: Priority) -> bool:
        """Whether a thread may begin such work now. The lock is held."""
        slow = len([job for job in self._at_work if job.runs_as > Priority.END_OF_TURN])
        return priority <= Priority.END_OF_TURN or slow < self._slow_limit

    def waiting(self) -> int:
        """How many jobs wait for a thread. Never above the limit."""
        return len(self._queue)

    def running(self) -> int:
        """How many jobs run at this instant."""
        return len(self._at_work)

    async def run(self, priority: Priority | Callable[[], Priority], work: Callable[[], T]) -> T:
        """Runs `work` in one of the threads and answers what it returned, or raises what it raised.

        A priority that may change while the job waits is a function, asked in whichever thread looks for work.

        A cancelled wait takes a job that has not started out of the queue; one that has started runs to its end and its result
        is dropped. Raises EngineBusy at once where the queue is full, EngineClosed after or during `close`.
        """
        completion: Completion[T] = Completion()
        job = self._enqueue(priority if callable(priority) else lambda: priority, work, completion)
        try:
            return await completion.wait()
        except BaseException:
            self._withdraw(job)
            raise

    def close(self) -> None:
        """Fails what waits with EngineClosed, lets what runs finish (under half a second of inference), ends the threads.

        Blocks meanwhile, so an event loop calls it in a thread. A second call does nothing more.
        """
        with self._changed:
            self._is_closed = True
            dropped, self._queue = self._queue, []
            self._changed.notify_all()
        for job in dropped:
            job.completion.fail(EngineClosed(self._name))
        for thread in self._threads:
            thread.join()

    def _enqueue(self, priority: Callable[[], Priority], work: Callable[[], T], completion: Completion[T]) -> _Job[T]:
        with self._changed:
            if self._is_closed:
                raise EngineClosed(self._name)
            if len(self._queue) >= self._queue_limit:
                raise EngineBusy(self._name, self._queue_limit)
            job = _Job(priority, work, completion)
            self._queue.append(job)  # type: ignore[arg-type]  # the queue holds jobs of any result type
            self._changed.notify()
            return job

    def _withdraw(self, job: _Job[T]) -> None:
        """Takes a job that never started out at once: the bound counts waiting callers, not their remains."""
        with self._changed:
            if job in self._queue:
                self._queue.remove(job)  # type: ignore[arg-type]

    def _work(self) -> None:
        while (job := self._next()) is not None:
            job.run()
            with self._changed:
                self._at_work.remove(job)
                self._changed.notify()  # what could not be begun beside it may be now
            del job  # a thread that waits for work must not keep the last utterance alive

    def _next(self) -> _Job[object] | None:
        with self._changed:
            while (job := self._first()) is None:
                if self._is_closed:
                    return None
                # What may not be begun now may be when its priority changes, which is told to nobody.
                self._changed.wait(_LOOK_AGAIN_S if self._queue else None)
            self._queue.remove(job)
            self._at_work.append(job)
            return job

    def _first(self) -> _Job[object] | None:
        """What to begin now: of the first priority the oldest. Scanned, no heap: priorities change, and the queue is short."""
        first: _Job[object] | None = None
        for job in self._queue:
            priority = job.priority()
            if self._may_run(priority) and (first is None or priority < first.runs_as):
                job.runs_as = priority
                first = job
        return first
