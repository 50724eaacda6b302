"""The answer of `POST /v1/assignments`: where to go, and the ticket that is awaited there."""

from __future__ import annotations

from urllib.parse import urlencode

from balancer.placement.placement import Placement

__all__ = ["assignment_document"]


def assignment_document(placement: Placement) -> dict[str, object]:
    query = "?" + urlencode({"model": placement.request.agent}) if placement.request.agent else ""
    return {
        "session_id": placement.session_id,
        "epoch": placement.epoch,
        "runtime_id": placement.runtime_id,
        "websocket_url": f"ws://{placement.websocket_address}/v1/realtime{query}",
        "grpc_address": placement.grpc_address,
        "ticket": placement.ticket,
        "ticket_ttl_s": placement.ticket_ttl_ms / 1000,
        "reason": placement.reason,
        "cross_region": placement.cross_region,
    }
