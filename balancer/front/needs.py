"""What a caller asks for, from a query string, a header or an assignment's JSON, checked field by field."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final
from urllib.parse import parse_qsl, unquote

from balancer.front.responses import HttpError
from balancer.routing.request import PlacementRequest, Priority
from balancer.routing.version import parse_version
from runtime.primitives.ids import is_session_id, is_tenant
from runtime.wire.headers import TENANT_HEADER

__all__ = [
    "VOICE_PATHS",
    "is_telephone_path",
    "is_voice_path",
    "needs_from_json",
    "needs_from_query",
    "needs_from_start",
    "needs_from_values",
]

VOICE_PATHS: Final = ("/v1/realtime", "/v1/converse", "/v1/twilio")
"""The WebSocket wires of a runtime, as callers find them here too."""
_AGENT_PATH: Final = "/v1/twilio/"
"""Such an address has no query: the agent stands behind it."""

_QUERY_NAMES: Final = {"model": "agent"}
_FIELDS: Final = ("agent", "session_id", "abilities", "region", "min_version", "context_window", "priority", "tenant")
_MOST_PARAMETERS: Final = 64
_MOST_ABILITIES: Final = 32
_PRIORITIES: Final = frozenset(Priority)
_NONE: Final[frozenset[str]] = frozenset()


def is_voice_path(path: str) -> bool:
    return path in VOICE_PATHS or (path.startswith(_AGENT_PATH) and "/" not in path.removeprefix(_AGENT_PATH))


def is_telephone_path(path: str) -> bool:
    """Its callers say what they need after the upgrade."""
    return path == VOICE_PATHS[2] or path.startswith(_AGENT_PATH)


def needs_from_query(
    query: str,
    session_header: str | None,
    new_session_id: Callable[[], str],
    path: str = VOICE_PATHS[0],
    headers: Iterable[tuple[bytes, bytes]] = (),
) -> PlacementRequest:
    """Parameters that are not ours are left to the runtime. Raises HttpError 400, which names the parameter."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query), max_num_fields=_MOST_PARAMETERS)
    except ValueError:
        raise HttpError(400, "bad_query", "the query string is malformed or has more than 64 parameters") from None
    values: dict[str, object] = {}
    for name, value in pairs:
        field = _QUERY_NAMES.get(name, name)
        if field not in _FIELDS or name == "agent":
            continue
        if field in values:
            raise HttpError(400, "bad_query", f"{name} is given twice")
        values[field] = value
    if path.startswith(_AGENT_PATH):
        values["agent"] = unquote(path.removeprefix(_AGENT_PATH))
    if session_header is not None and values.setdefault("session_id", session_header) != session_header:
        raise HttpError(400, "bad_query", "session_id differs between query and x-switchboard-session")
    for header, raw in headers:
        if header.lower() == TENANT_HEADER.encode():
            tenant = raw.decode("latin-1")
            if values.setdefault("tenant", tenant) != tenant:
                raise HttpError(400, "bad_query", f"the tenant differs between query and {TENANT_HEADER}, or is given twice")
    return needs_from_values(values, new_session_id)


def needs_from_start(first: PlacementRequest, said: Mapping[str, object]) -> PlacementRequest:
    """What a telephone stream's upgrade asked for, and what its start adds. Raises HttpError 400, which names the field."""
    if not said:
        return first
    if first.tenant and said.get("tenant", first.tenant) != first.tenant:
        raise HttpError(400, "bad_field", f"the tenant differs between the start and {TENANT_HEADER}")
    wanted = needs_from_values(said, lambda: first.session_id)
    return replace(first, **{name: getattr(wanted, name) for name in said})


def needs_from_json(body: bytes, new_session_id: Callable[[], str]) -> PlacementRequest:
    """Raises HttpError 400, which names the field; unknown fields are refused, since a misspelt need would be ignored."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise HttpError(400, "bad_json", "the body is not JSON") from None
    if not isinstance(document, dict):
        raise HttpError(400, "bad_json", "the body is not a JSON object")
    for name in document:
        if name not in _FIELDS:
            raise HttpError(400, "bad_field", f"unknown field {name[:40]!r}; allowed: {', '.join(_FIELDS)}")
    return needs_from_values(document, new_session_id)


def needs_from_values(values: Mapping[str, object], new_session_id: Callable[[], str]) -> PlacementRequest:
    """Fields by their names, whatever wire they came on. Raises HttpError 400, which names the field."""
    session_id = _text(values, "session_id", 128)
    if "session_id" in values and not is_session_id(session_id):
        raise _bad("session_id", "1-128 characters of [A-Za-z0-9_.:-]")
    priority = _text(values, "priority", 16) or Priority.NORMAL.value
    if priority not in _PRIORITIES:
        raise _bad("priority", " | ".join(Priority))
    min_version = _text(values, "min_version", 64)
    version = parse_version(min_version) if min_version else ()
    if version is None:
        raise _bad("min_version", "dotted integers")
    return PlacementRequest(
        session_id=session_id or new_session_id(),
        agent=_text(values, "agent", 128),
        abilities=_abilities(values.get("abilities", ())),
        region=_text(values, "region", 64),
        min_version=version,
        context_window=_whole(values.get("context_window", 0)),
        priority=Priority(priority),
        tenant=_tenant(values),
    )


def _text(values: Mapping[str, object], name: str, longest: int) -> str:
    value = values.get(name, "")
    if not isinstance(value, str) or len(value) > longest or not value.isprintable():
        raise _bad(name, f"at most {longest} printable characters")
    return value


def _tenant(values: Mapping[str, object]) -> str:
    tenant = values.get("tenant", "")
    if not isinstance(tenant, str) or not is_tenant(tenant):
        raise _bad("tenant", "at most 64 characters of [A-Za-z0-9_.:-]")
    return tenant


def _abilities(value: object) -> frozenset[str]:
    words = value.split(",") if isinstance(value, str) else value
    if not isinstance(words, (list, tuple)) or len(words) > _MOST_ABILITIES:
        raise _bad("abilities", f"at most {_MOST_ABILITIES} words")
    for word in words:
        if not isinstance(word, str) or len(word) > 64 or not word.isprintable():
            raise _bad("abilities", "words of at most 64 printable characters")
    return frozenset(word.strip() for word in words if word.strip()) if words else _NONE  # a set of its own is 216 bytes a call


def _whole(value: object) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**32:
        raise _bad("context_window", "a whole number of tokens")
    return value


def _bad(name: str, allowed: str) -> HttpError:
    return HttpError(400, "bad_field", f"{name} is not valid; allowed: {allowed}")
