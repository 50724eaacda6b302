"""The codec bench measures what it says: every wire, work that is really done."""

from __future__ import annotations

import pytest

from perf.bench.wires import _WIRES, measure


@pytest.mark.parametrize("wire", sorted(_WIRES))
def test_every_wire_is_measured(wire: str) -> None:
    found = measure(wire, 5)
    assert found["wire"] == wire
    assert found["decode_us"] > 0
    assert found["encode_us"] > 0
    assert found["core_share"] == pytest.approx((found["decode_us"] + found["encode_us"]) * 50 / 1e6, abs=1e-6)


@pytest.mark.parametrize("wire", sorted(_WIRES))
def test_the_work_is_a_frame_in_and_a_frame_out(wire: str) -> None:
    decode, encode = _WIRES[wire]()
    heard, said = decode(), encode()
    assert "AppendAudio" in repr(heard)
    assert isinstance(said, list)
    assert len(said[0]) > 200
