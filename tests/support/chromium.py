"""A real Chromium without a window, driven over its DevTools protocol; its microphone is a WAV file."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

import anyio
import httpx
from websockets.asyncio.client import ClientConnection, connect

__all__ = ["CHROMIUM", "Page", "chromium_page"]

CHROMIUM = next((found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), "")
"""Where it is; empty: not installed."""


class Page:
    """One tab."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._commands = 0

    async def command(self, method: str, **parameters: Any) -> Any:
        """Sends one command and answers its result. Commands do not overlap."""
        self._commands += 1
        await self._connection.send(json.dumps({"id": self._commands, "method": method, "params": parameters}))
        with anyio.fail_after(60):
            while True:
                message = json.loads(await self._connection.recv())
                if message.get("id") == self._commands:
                    assert "error" not in message, message
                    return message["result"]

    async def run(self, script: str) -> Any:
        """Evaluates JavaScript as if a person had clicked, waits for its promise, answers its value."""
        result = await self.command(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, userGesture=True
        )
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    async def until(self, script: str, within_s: float = 60.0) -> Any:
        """Asks until the answer is truthy, and answers it."""
        last: Any = None
        with anyio.move_on_after(within_s):
            while True:
                last = await self.run(script)
                if last:
                    return last
                await anyio.sleep(0.05)
        raise AssertionError(f"not within {within_s:g} s: {script} (last: {last!r})")


@asynccontextmanager
async def chromium_page(url: str, microphone: Path) -> AsyncIterator[Page]:
    """Opens `url`. `microphone`: a WAV file that is spoken once, from when the page opens its microphone."""
    with tempfile.TemporaryDirectory() as profile:
        command = [
            CHROMIUM,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--remote-debugging-port=0",
            f"--user-data-dir={profile}",
            "--use-fake-device-for-media-stream",
            "--use-fake-ui-for-media-stream",
            f"--use-file-for-fake-audio-capture={microphone}%noloop",
            "--autoplay-policy=no-user-gesture-required",
            "about:blank",
        ]
        async with await anyio.open_process(command, stdout=DEVNULL, stderr=DEVNULL, start_new_session=True) as process:
            try:
                port = await _debugging_port(Path(profile))
                async with httpx.AsyncClient(trust_env=False) as client:
                    opened = (await client.put(f"http://127.0.0.1:{port}/json/new?about:blank", timeout=30)).json()
                async with connect(opened["webSocketDebuggerUrl"], max_size=None, proxy=None) as connection:
                    page = Page(connection)
                    await page.command("Page.enable")
                    await page.command("Page.navigate", url=url)
                    await page.until("document.readyState === 'complete' && location.href !== 'about:blank'")
                    yield page
            finally:
                # Its own processes are in its own session, and end with it.
                os.killpg(process.pid, 15)
                with anyio.move_on_after(10, shield=True) as waiting:
                    await process.wait()
                if waiting.cancelled_caught:
                    os.killpg(process.pid, 9)


async def _debugging_port(profile: Path) -> int:
    file = profile / "DevToolsActivePort"
    with anyio.fail_after(60):
        while True:
            if file.exists() and (lines := file.read_text().splitlines()):
                return int(lines[0])
            await anyio.sleep(0.05)
