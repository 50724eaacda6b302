"""The CPU that is burned is the CPU that was asked for."""

from __future__ import annotations

import time

import pytest

from runtime.engines.synthetic_burner import CpuBurner


@pytest.fixture(scope="module")
def burner() -> CpuBurner:
    return CpuBurner()


@pytest.mark.parametrize("wanted_ms", [0.3, 5.0, 40.0])
def test_burns_what_was_asked(burner: CpuBurner, wanted_ms: float) -> None:
    began_ns = time.thread_time_ns()
    told_ms = burner.burn(wanted_ms)
    spent_ms = (time.thread_time_ns() - began_ns) / 1e6
    assert spent_ms == pytest.approx(told_ms, abs=0.5)
    assert wanted_ms - 0.05 <= told_ms <= wanted_ms * 1.5 + 1.0


def test_the_calibration_is_right_within_a_factor_of_two(burner: CpuBurner) -> None:
    def chunk_ms() -> float:
        began_ns = time.thread_time_ns()
        burner.hash_chunk(1.0)
        return (time.thread_time_ns() - began_ns) / 1e6

    assert 0.5 <= min(chunk_ms() for _ in range(20)) <= 2.0


@pytest.mark.parametrize("nothing_ms", [0.0, -1.0])
def test_nothing_costs_nothing(burner: CpuBurner, nothing_ms: float) -> None:
    assert burner.burn(nothing_ms) < 0.5
