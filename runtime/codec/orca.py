"""A snapshot as an ORCA report, for stock gRPC and Envoy clients.

    cpu_utilization           own CPU over the share of the allowed cores
    application_utilization   the fuller of CPU and places: max(utilisation, (active + reserved) / hard_limit)
    rps_fractional            the session rate: active / window (90 sessions in 10 s are 9/s), at least 1
    named_metrics             active, reserved, hard_limit, speaking, queue_length, and more

The weight that stock clients compute is rps / utilisation. Envoy drops a report in which either is 0, and keeps whole weights
only, so that rates below 1 would all weigh the same: both have a smallest value that means "next to nothing". Below ten sessions
the weight then follows the utilisation alone, which is as well, since a rate in the numerator favours the busy.
"""

from __future__ import annotations

from typing import Final

from protos.xds.data.orca.v3 import orca_load_report_pb2 as pb
from runtime.primitives.clock import NS_PER_S
from runtime.primitives.load_snapshot import LoadSnapshot, RuntimeState

__all__ = ["orca_report"]

_SMALLEST_RATE: Final = 1.0
_SMALLEST_UTILISATION: Final = 0.01
_SHORTEST_WINDOW_S: Final = 1.0


def orca_report(snapshot: LoadSnapshot) -> pb.OrcaLoadReport:
    """The report of one instant. A runtime that takes nothing new reports itself full."""
    window_s = max(_SHORTEST_WINDOW_S, (snapshot.window_end_ns - snapshot.window_start_ns) / NS_PER_S)
    utilisation = max(_SMALLEST_UTILISATION, snapshot.utilisation)
    places = (snapshot.active + snapshot.reserved) / snapshot.hard_limit
    takes_calls = snapshot.state is RuntimeState.READY
    return pb.OrcaLoadReport(
        cpu_utilization=utilisation,
        application_utilization=max(utilisation, places if takes_calls else 1.0),
        rps_fractional=max(_SMALLEST_RATE, snapshot.active / window_s),
        named_metrics={
            "switchboard.active": snapshot.active,
            "switchboard.reserved": snapshot.reserved,
            "switchboard.speaking": snapshot.speaking,
            "switchboard.hard_limit": snapshot.hard_limit,
            "switchboard.queue_length": snapshot.queue_length,
            "switchboard.loop_lag_p99_ms": snapshot.loop_lag_p99_ms,
            "switchboard.missed_audio_deadlines": snapshot.missed_audio_deadlines,
            "switchboard.takes_calls": float(takes_calls),
        },
    )
