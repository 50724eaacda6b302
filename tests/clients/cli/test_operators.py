"""Asking an operator port, against a real HTTP server that answers by script."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from clients.cli.operators import OperatorRefused, ask_to_drain, ask_to_move


@contextlib.contextmanager
def answering(status: int, body: bytes) -> Iterator[tuple[str, list[tuple[str, str, object]]]]:
    asked: list[tuple[str, str, object]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            document = json.loads(self.rfile.read(int(self.headers["content-length"])))
            asked.append((self.path, self.headers["content-type"], document))
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_what_is_asked() -> None:
    with answering(202, b"{}") as (url, asked):
        ask_to_drain(url, "r1")
        ask_to_move(url, "a:b/c", "r2")
    assert asked == [
        ("/v1/runtimes/r1/drain", "application/json", {}),
        ("/v1/calls/a%3Ab%2Fc/move", "application/json", {"to": "r2"}),
    ]


@pytest.mark.parametrize(
    ("body", "words"),
    [(b'{"error": {"message": "no such runtime is enrolled"}}', "no such runtime"), (b"<html>", "HTTP 404"), (b"[]", "HTTP 404")],
)
def test_a_no_is_told(body: bytes, words: str) -> None:
    with answering(404, body) as (url, _), pytest.raises(OperatorRefused, match=words):
        ask_to_drain(url, "r1")


@pytest.mark.parametrize("url", ["ftp://127.0.0.1", "nonsense", "http://127.0.0.1:99999", "http://127.0.0.1:1"])
def test_an_address_that_does_not_answer_is_named(url: str) -> None:
    with pytest.raises(OperatorRefused, match=r"no address|no answer"):
        ask_to_drain(url, "r1")
