"""The operators' HTTP port: the fleet, the decisions, one call, metrics, health, and a live page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from balancer.dashboard.documents import Documents
from balancer.dashboard.page import PAGE
from runtime.primitives.clock import Clock
from runtime.primitives.ids import is_session_id

__all__ = ["operator_app"]

_MOST_DECISIONS: Final = 1000
_NO_STORE: Final = {"cache-control": "no-store"}


def operator_app(documents: Documents, clock: Clock, metrics: Callable[[], tuple[bytes, str]]) -> Starlette:
    """`metrics` renders the Prometheus exposition and names its content type."""

    async def fleet(_request: Request) -> Response:
        return JSONResponse(documents.whole_fleet(clock.now_ns()), headers=_NO_STORE)

    async def decisions(request: Request) -> Response:
        text = request.query_params.get("n", "50")
        if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= _MOST_DECISIONS:
            return _error(400, "bad_request", f"n is {text[:20]!r}; allowed: 1-{_MOST_DECISIONS}")
        return JSONResponse(documents.decisions(int(text), clock.now_ns()), headers=_NO_STORE)

    async def call(request: Request) -> Response:
        session_id = request.path_params["session_id"]
        found = documents.call(session_id, clock.now_ns()) if is_session_id(session_id) else None
        if found is None:
            return _error(404, "unknown_session", "no such session is live or in the decision log")
        return JSONResponse(found, headers=_NO_STORE)

    async def exposition(_request: Request) -> Response:
        body, content_type = metrics()
        return Response(body, media_type=content_type)

    async def healthy(_request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def ready(_request: Request) -> Response:
        is_ready = documents.is_ready(clock.now_ns())
        return PlainTextResponse("ready\n" if is_ready else "no runtime has a place\n", status_code=200 if is_ready else 503)

    async def page(_request: Request) -> Response:
        return HTMLResponse(PAGE, headers=_NO_STORE)

    return Starlette(
        routes=[
            Route("/", page),
            Route("/v1/fleet", fleet),
            Route("/v1/decisions", decisions),
            Route("/v1/calls/{session_id}", call),
            Route("/metrics", exposition),
            Route("/healthz", healthy),
            Route("/readyz", ready),
        ]
    )


def _error(status: int, code: str, message: str) -> JSONResponse:
    return JSONResponse({"error": {"code": code, "message": message}}, status_code=status)
