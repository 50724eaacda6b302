"""The call page is served whole from the public port, and loads nothing from elsewhere."""

from __future__ import annotations

import re

import pytest

from balancer.front.call_page import call_page


def _body(path: str) -> tuple[str, str]:
    answer = call_page(path)
    assert answer is not None
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert f"content-length: {len(body)}".encode() in head
    return head.decode(), body.decode()


def test_every_file_that_is_named_is_served() -> None:
    head, page = _body("/call")
    assert "content-type: text/html" in head
    assert "default-src 'self'" in head
    script = re.search(r'src="([^"]+)"', page)
    assert script is not None
    _, module = _body(script.group(1))
    imported = re.search(r'from "\./([^"]+)"', module)
    assert imported is not None
    head, library = _body(f"/call/{imported.group(1)}")
    assert "content-type: text/javascript" in head
    worklets = re.findall(r'"(\w+\.js)"', library)
    assert set(worklets) >= {"microphone.js", "playback.js"}
    for name in worklets:
        _body(f"/call/{name}")


def test_nothing_is_loaded_from_elsewhere() -> None:
    for path in ("/call", "/call/page.js", "/call/switchboard.js", "/call/microphone.js", "/call/playback.js"):
        _, body = _body(path)
        code = re.sub(r"^\s*//.*$", "", body, flags=re.MULTILINE)
        assert not re.search(r"https?://", code), path


@pytest.mark.parametrize("path", ["/call/", "/call/../page.html", "/call/__init__.py", "/"])
def test_no_other_file_is(path: str) -> None:
    assert call_page(path) is None
