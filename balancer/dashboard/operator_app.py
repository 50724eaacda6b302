"""The operators' HTTP port: the fleet, the decisions, one call, metrics, health, a live page; the choice of the
policy, drains and moves."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Final

import anyio.lowlevel
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from balancer.dashboard.controls import Controls
from balancer.dashboard.documents import Documents
from balancer.dashboard.page import PAGE
from balancer.routing.policy_options import UnknownPolicy
from runtime.primitives.clock import Clock
from runtime.primitives.ids import is_runtime_id, is_session_id

__all__ = ["operator_app"]

_MOST_DECISIONS: Final = 1000
_NO_STORE: Final = {"cache-control": "no-store"}
_MOST_BYTES: Final = 4096
_JSON: Final = "application/json"


def operator_app(documents: Documents, clock: Clock, metrics: Callable[[], tuple[bytes, str]], controls: Controls) -> Starlette:
    """`metrics` renders the Prometheus exposition and names its content type."""

    async def fleet(_request: Request) -> Response:
        return JSONResponse(documents.whole_fleet(clock.now_ns()), headers=_NO_STORE)

    async def decisions(request: Request) -> Response:
        text = request.query_params.get("n", "50")
        if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= _MOST_DECISIONS:
            return _error(400, "bad_request", f"n is {text[:20]!r}; allowed: 1-{_MOST_DECISIONS}")
        return JSONResponse(documents.decisions(int(text), clock.now_ns()), headers=_NO_STORE)

    async def decision_lines(_request: Request) -> Response:
        async def chunks() -> AsyncIterator[str]:
            for chunk in documents.decision_lines(clock.now_ns()):  # a chunk at a step of the loop: the log may be long
                yield chunk
                await anyio.lowlevel.checkpoint()

        return StreamingResponse(chunks(), media_type="application/x-ndjson", headers=_NO_STORE)

    async def queue(_request: Request) -> Response:
        return JSONResponse(documents.queue(clock.now_ns()), headers=_NO_STORE)

    async def policy(request: Request) -> Response:
        if not _is_json(request):
            return _wrong_type()
        body = await _body(request)
        if body is None:
            return _too_large()
        name = _only_field(body, "policy")
        if name is None:
            return _error(400, "bad_json", 'the body is not {"policy": NAME}')
        try:
            before = controls.use_policy(name)
        except UnknownPolicy as unknown:
            return JSONResponse(
                {"error": {"code": unknown.code, "message": str(unknown), "allowed": unknown.allowed}}, status_code=400
            )
        return JSONResponse({"policy": name, "before": before}, headers=_NO_STORE)

    async def drain(request: Request) -> Response:
        if not _is_json(request):
            return _wrong_type()
        runtime_id = request.path_params["runtime_id"]
        if not is_runtime_id(runtime_id) or not controls.drain(runtime_id):
            return _error(404, "unknown_runtime", "no such runtime is enrolled")
        return JSONResponse({"runtime_id": runtime_id}, status_code=202, headers=_NO_STORE)

    async def move(request: Request) -> Response:
        if not _is_json(request):
            return _wrong_type()
        session_id, body = request.path_params["session_id"], await _body(request)
        if body is None:
            return _too_large()
        to = _only_field(body or b'{"to": ""}', "to")
        if to is None or (to and not is_runtime_id(to)):
            return _error(400, "bad_json", 'the body is neither empty nor {"to": RUNTIME_ID}')
        problem = await controls.move(session_id, to)
        if problem:
            return _error(409, "cannot_move", problem)
        return JSONResponse({"session_id": session_id}, status_code=202, headers=_NO_STORE)

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
            Route("/v1/decisions.jsonl", decision_lines),
            Route("/v1/queue", queue),
            Route("/v1/policy", policy, methods=["POST"]),
            Route("/v1/runtimes/{runtime_id}/drain", drain, methods=["POST"]),
            Route("/v1/calls/{session_id}", call),
            Route("/v1/calls/{session_id}/move", move, methods=["POST"]),
            Route("/metrics", exposition),
            Route("/healthz", healthy),
            Route("/readyz", ready),
        ]
    )


def _is_json(request: Request) -> bool:
    """A page of another site cannot send this type without asking first, and is not allowed to."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == _JSON


def _wrong_type() -> Response:
    return _error(415, "unsupported_media_type", f"send the body as {_JSON}")


def _too_large() -> Response:
    return _error(413, "body_too_large", f"the body is above {_MOST_BYTES} bytes")


async def _body(request: Request) -> bytes | None:
    """None: more than we take."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MOST_BYTES:
            return None
    return body


def _only_field(body: bytes, field: str) -> str | None:
    """The text in a JSON object of this one field; None: it is something else."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or set(document) != {field}:
        return None
    value = document[field]
    return value if isinstance(value, str) else None


def _error(status: int, code: str, message: str) -> JSONResponse:
    return JSONResponse({"error": {"code": code, "message": message}}, status_code=status)
