"""A relay's own operator port: its metrics and its health. The fleet, the calls and the page are at its control."""

from __future__ import annotations

from collections.abc import Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

__all__ = ["relay_app"]


def relay_app(metrics: Callable[[], tuple[bytes, str]], is_ready: Callable[[], bool]) -> Starlette:
    """`metrics` renders the Prometheus exposition and names its content type; `is_ready`: a new caller would get a place."""

    async def exposition(_request: Request) -> Response:
        body, content_type = metrics()
        return Response(body, media_type=content_type)

    async def healthy(_request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def ready(_request: Request) -> Response:
        if is_ready():
            return PlainTextResponse("ready\n")
        return PlainTextResponse("no control, or no runtime has a place\n", status_code=503)

    return Starlette(routes=[Route("/metrics", exposition), Route("/healthz", healthy), Route("/readyz", ready)])
