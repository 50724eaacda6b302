"""How a gRPC end finds out that the other one is not there any more, though nothing said so."""

from __future__ import annotations

__all__ = ["probing"]


def probing(interval_ms: int, answer_within_ms: int) -> tuple[tuple[str, int], ...]:
    """Channel or server options: where nothing came for `interval_ms` the other end is probed, and has so long to answer.

    Every ping has a time limit of its own, a minute by default, and for a silent peer grpcio 1.85 goes by that one alone:
    `keepalive_timeout_ms` without it found such a peer after 70 seconds instead of 13 (perf/faults/silent_hop.py shows it).
    """
    return (
        ("grpc.keepalive_time_ms", interval_ms),
        ("grpc.keepalive_timeout_ms", answer_within_ms),
        ("grpc.http2.ping_timeout_ms", answer_within_ms),
    )
