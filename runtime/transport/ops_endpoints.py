"""Health, readiness, metrics and the present snapshot, beside the voice endpoint on the runtime's HTTP port."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from runtime.primitives.load_snapshot import LoadSnapshot, RuntimeState

__all__ = ["ops_routes"]


def ops_routes(
    state: Callable[[], RuntimeState], snapshot: Callable[[], LoadSnapshot], metrics: Callable[[], tuple[bytes, str]]
) -> list[Route]:
    """Args: `metrics` answers the exposition's bytes and content type."""

    async def health(_: Request) -> Response:
        return JSONResponse({"status": "ok", "state": state()})

    async def ready(_: Request) -> Response:
        is_ready = state() is RuntimeState.READY
        return JSONResponse({"ready": is_ready, "state": state()}, 200 if is_ready else 503)

    async def exposition(_: Request) -> Response:
        body, content_type = metrics()
        return Response(body, headers={"Content-Type": content_type})

    async def load(_: Request) -> Response:
        taken = asdict(snapshot())
        taken["idle"] = taken["active"] - taken["speaking"]
        taken["abilities"] = sorted(taken["abilities"])
        taken["agents"] = sorted(taken["agents"])
        return JSONResponse(taken)

    return [
        Route("/healthz", health),
        Route("/readyz", ready),
        Route("/metrics", exposition),
        Route("/v1/load", load),
    ]
