"""What a worker says arrives in whatever pieces; what is no word of ours, and a reader that does not read, hurt nobody."""

from __future__ import annotations

import os
from collections.abc import Iterator

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.app.worker_report import Reporter, ReportReader

_READY = {"event": "ready", "runtime_id": "m-1"}


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    hearing, speaking = os.pipe()
    yield hearing, speaking
    os.close(hearing)
    os.close(speaking)


def test_the_ready_document_arrives_between_beats(pipe: tuple[int, int]) -> None:
    reporter = Reporter(pipe[1])
    reporter._say("")
    reporter.ready(_READY)
    reporter._say("")
    assert ReportReader().feed(os.read(pipe[0], 4096)) == _READY


@given(st.binary(max_size=200).filter(lambda noise: b"{" not in noise), st.lists(st.integers(1, 30), max_size=8))
def test_any_pieces_and_any_noise_before_it(noise: bytes, cuts: list[int]) -> None:
    data = noise + b'\n[]\n"ready"\n{"event":"other"}\n{"event":"ready","runtime_id":"m-1"}\n\n'
    reader = ReportReader()
    found = []
    for cut in cuts:
        found.append(reader.feed(data[:cut]))
        data = data[cut:]
    found.append(reader.feed(data))
    assert [each for each in found if each is not None] == [_READY]


def test_a_line_without_end_is_dropped() -> None:
    reader = ReportReader()
    for _ in range(100):
        assert reader.feed(b"x" * 10_000) is None
    assert len(reader._rest) <= 64 * 1024


def test_nobody_waits_for_a_supervisor_that_does_not_read(pipe: tuple[int, int]) -> None:
    reporter = Reporter(pipe[1])
    for _ in range(100_000):  # more than the pipe holds
        reporter._say("")


@pytest.mark.anyio
async def test_beats_go_on_until_cancelled_also_where_the_supervisor_is_gone(pipe: tuple[int, int]) -> None:
    hearing, speaking = os.pipe()
    reporter = Reporter(speaking)
    async with anyio.create_task_group() as group:
        group.start_soon(reporter.beat)
        with anyio.fail_after(20):
            await anyio.wait_readable(hearing)
        assert os.read(hearing, 100) == b"\n"
        os.close(hearing)
        reporter._say("")
        group.cancel_scope.cancel()
    os.close(speaking)
    assert not os.get_inheritable(pipe[1])


def test_a_descriptor_that_is_none_is_said() -> None:
    with pytest.raises(OSError, match="Bad file descriptor"):
        Reporter(1_000_000)
