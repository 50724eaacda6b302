"""The examples of docs/clients.md run as they stand there, against a balancer with a runtime behind it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
from pathlib import Path

import anyio
import numpy as np
import pytest

from clients.wav_files import write_wav
from tests.conformance.callers import speech
from tests.support.chromium import CHROMIUM, chromium_page
from tests.support.local_runtime import enrolled_runtime

pytestmark = pytest.mark.anyio
_TEXT = (Path(__file__).parents[2] / "docs" / "clients.md").read_text(encoding="utf-8")
_PYTHON = re.findall(r"```python\n(.*?)```", _TEXT, re.DOTALL)
_HTML = re.findall(r"```html\n(.*?)```", _TEXT, re.DOTALL)


def _run(example: str) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(example, "docs/clients.md", "exec"), {"__name__": "example"})
    return printed.getvalue()


@pytest.mark.parametrize("number", range(2))
async def test_the_python_examples(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(_PYTHON) == 2
    monkeypatch.chdir(tmp_path)
    write_wav(tmp_path / "question.wav", np.frombuffer(speech(0.5, 0.1), "<i2").astype(np.int16), 24_000)
    async with enrolled_runtime() as enrolled:
        example = _PYTHON[number].replace("127.0.0.1:8080", enrolled.service.url.split("/")[2])
        with anyio.fail_after(60):
            printed = await anyio.to_thread.run_sync(_run, example)
    assert printed == "good morning\nYou said: good morning.\n"


@pytest.mark.e2e
@pytest.mark.skipif(not CHROMIUM and "CI" not in os.environ, reason="no Chromium: make browser installs it")
async def test_the_browser_s_example(tmp_path: Path) -> None:
    assert CHROMIUM, "make browser installs it"
    assert len(_HTML) == 1
    microphone = tmp_path / "microphone.wav"
    write_wav(microphone, np.frombuffer(bytes(24_000) + speech(0.6, 20), "<i2").astype(np.int16), 24_000)
    async with enrolled_runtime() as enrolled:
        site = enrolled.service.url.replace("ws://", "http://").removesuffix("/v1/realtime")
        async with chromium_page(f"{site}/healthz", microphone) as page:
            await page.run(f"document.open(); document.write({json.dumps(_HTML[0])}); document.close()")
            await page.until("typeof talk !== 'undefined' && talk.onclick !== null")
            await page.run("talk.click()")
            assert await page.until("said.textContent.startsWith('agent') && said.textContent.endsWith('.') && said.textContent")
            assert await page.run("said.textContent") == "agent: You said: good morning."
