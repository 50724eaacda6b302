"""What the command asks of a balancer's operator port."""

from __future__ import annotations

import json
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Final
from urllib.parse import quote, urlsplit

__all__ = ["OperatorRefused", "ask_to_drain", "ask_to_move"]

_TIMEOUT_S: Final = 10.0


class OperatorRefused(Exception):
    """The balancer could not be asked, or said no; `str` says why."""


def ask_to_drain(operator_url: str, runtime_id: str) -> None:
    """The runtime takes nothing new, its calls move, and it leaves when it is empty. Raises OperatorRefused."""
    _post(operator_url, f"/v1/runtimes/{quote(runtime_id, safe='')}/drain", {})


def ask_to_move(operator_url: str, session_id: str, to: str = "") -> None:
    """The call goes on at the runtime `to`, or at any other. Raises OperatorRefused."""
    _post(operator_url, f"/v1/calls/{quote(session_id, safe='')}/move", {"to": to})


def _post(operator_url: str, path: str, document: dict[str, str]) -> None:
    parts = urlsplit(operator_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise OperatorRefused(f"{operator_url!r} is no address of an operator port; allowed: http://HOST:PORT")
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    try:
        connection = kind(parts.hostname, parts.port, timeout=_TIMEOUT_S)
        try:
            connection.request("POST", path, json.dumps(document), {"content-type": "application/json"})
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
    except (OSError, HTTPException, ValueError) as error:
        raise OperatorRefused(f"no answer from {operator_url}: {error}") from None
    if answer.status != 202:
        raise OperatorRefused(_message(body) or f"HTTP {answer.status}")


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return ""
