"""Utilisation from readings of used CPU time; what cannot be is thrown away."""

from __future__ import annotations

import pytest

from runtime.load.cpu_meter import CpuMeter

_S = 1_000_000_000


class _Process:
    def __init__(self) -> None:
        self.used_ns = 5 * _S

    def read(self) -> int:
        return self.used_ns


def _meter(process: _Process, cores: float = 2.0, available: float = 2.0) -> CpuMeter:
    return CpuMeter(process.read, cores, available)


def _run(meter: CpuMeter, process: _Process, seconds: float, load: float, from_ns: int = 0, step_s: float = 0.5) -> int:
    """`load`: cores in use. Answers the instant after."""
    now = from_ns
    for _ in range(round(seconds / step_s)):
        now += int(step_s * _S)
        process.used_ns += int(step_s * load * _S)
        meter.sample(now)
    return now


def test_the_mean_is_over_the_window_and_over_our_cores() -> None:
    process = _Process()
    meter = _meter(process)
    meter.restart(0)
    now = _run(meter, process, 20, 1.0)
    assert meter.utilisation == pytest.approx(0.5)
    now = _run(meter, process, 5, 2.0, now)
    assert meter.utilisation == pytest.approx(0.75, abs=0.03)
    now = _run(meter, process, 10, 2.0, now)
    assert meter.utilisation == pytest.approx(1.0, abs=0.03)
    assert now - 11 * _S <= meter.window_start_ns <= now - 10 * _S


def test_the_fast_mean_follows_in_seconds() -> None:
    process = _Process()
    meter = _meter(process)
    meter.restart(0)
    now = _run(meter, process, 20, 0.0)
    _run(meter, process, 4, 2.0, now)
    assert meter.fast > 0.8
    assert meter.utilisation < 0.5


@pytest.mark.parametrize("delta_s", [-1.0, 1.2, 60.0])
def test_an_impossible_delta_is_rejected_and_starts_over(delta_s: float) -> None:  # bug B17, B23
    process = _Process()
    meter = _meter(process)
    meter.restart(0)
    now = _run(meter, process, 10, 1.0)
    process.used_ns += int(delta_s * _S)  # within half a second
    meter.sample(now + _S // 2)
    assert meter.rejected == 1
    assert meter.utilisation == 0.0
    assert meter.fast == pytest.approx(0.5, abs=0.01)
    _run(meter, process, 10, 1.0, now + _S // 2)
    assert meter.utilisation == pytest.approx(0.5)


def test_the_first_tick_of_a_window_is_not_several_cores() -> None:
    process = _Process()
    meter = _meter(process)
    meter.restart(0)
    process.used_ns += 10_000_000
    meter.sample(1_000_000)
    assert meter.rejected == 0
    assert meter.utilisation < 0.01


def test_no_time_no_reading() -> None:
    process = _Process()
    meter = _meter(process)
    assert (meter.utilisation, meter.window_start_ns, meter.fast) == (0.0, 0, 0.0)
    meter.sample(7)
    process.used_ns += _S
    meter.sample(7)
    meter.sample(3)
    assert (meter.utilisation, meter.rejected) == (0.0, 0)


@pytest.mark.parametrize(("cores", "available"), [(0.0, 1.0), (1.0, 0.0), (-1.0, 1.0)])
def test_impossible_cores_are_refused(cores: float, available: float) -> None:
    with pytest.raises(ValueError, match="allowed: above 0"):
        CpuMeter(int, cores, available)
