"""The page on which a person talks to an agent, and the browser module that it uses: files of the clients, served as they are.

They lie beside the other clients of this distribution and are read as data, once; nothing of them runs here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

from balancer.front.responses import file_response

__all__ = ["call_page"]

_FILES: Final = {
    "/call": "call.html",
    "/call/page.js": "page.js",
    "/call/switchboard.js": "switchboard.js",
    "/call/microphone.js": "microphone.js",
    "/call/playback.js": "playback.js",
}
_TYPES: Final = {"html": "text/html; charset=utf-8", "js": "text/javascript; charset=utf-8"}
_HEADERS: Final = (
    # The page's own styles are in it; everything else comes from here, and calls go back to here.
    (
        "content-security-policy",
        "default-src 'self'; style-src 'unsafe-inline'; connect-src 'self' ws: wss:; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cache-control", "no-cache"),
)


def call_page(path: str) -> bytes | None:
    """The whole answer to a GET; None: no such file."""
    return _answers().get(path)


@cache
def _answers() -> Mapping[str, bytes]:
    folder = files("clients").joinpath("browser")
    return {
        path: file_response(folder.joinpath(name).read_bytes(), _TYPES[name.rpartition(".")[2]], _HEADERS)
        for path, name in _FILES.items()
    }
