"""A real Chromium without a window, driven over its DevTools protocol; its microphone is a WAV file."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

import anyio
import anyio.abc
import httpx
from websockets.asyncio.client import ClientConnection, connect

__all__ = ["CHROMIUM", "Page", "chromium_page"]

CHROMIUM = next((found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), "")
"""Where it is; empty: not installed."""
_STARTS = 3


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
    async with _browser(microphone) as port:
        async with httpx.AsyncClient(trust_env=False) as client:
            opened = (await client.put(f"http://127.0.0.1:{port}/json/new?about:blank", timeout=30)).json()
        async with connect(opened["webSocketDebuggerUrl"], max_size=None, proxy=None) as connection:
            page = Page(connection)
            await page.command("Page.enable")
            await page.command("Page.navigate", url=url)
            await page.until("document.readyState === 'complete' && location.href !== 'about:blank'")
            yield page


@asynccontextmanager
async def _browser(microphone: Path) -> AsyncIterator[int]:
    """A browser of our own; its debugging port. One that dies while it starts is started again: it is not what is tested."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        for attempt in range(_STARTS):
            profile, log = Path(folder) / f"profile-{attempt}", Path(folder) / f"log-{attempt}"
            command = [
                CHROMIUM,
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--no-first-run",
                "--remote-debugging-port=0",
                f"--user-data-dir={profile}",
                "--use-fake-device-for-media-stream",
                "--use-fake-ui-for-media-stream",
                f"--use-file-for-fake-audio-capture={microphone}%noloop",
                "--autoplay-policy=no-user-gesture-required",
                "about:blank",
            ]
            with log.open("wb") as errors:
                process = await anyio.open_process(command, stdout=DEVNULL, stderr=errors, start_new_session=True)
            try:
                port = await _debugging_port(profile, process)
                if port is not None:
                    yield port
                    return
            finally:
                await _end(process)
        raise AssertionError(f"{CHROMIUM} did not start {_STARTS} times; the last time it said: {log.read_text()[-2000:]}")


async def _debugging_port(profile: Path, process: anyio.abc.Process) -> int | None:
    """None: it ended, or does not come to it."""
    file = profile / "DevToolsActivePort"
    with anyio.move_on_after(60):
        while process.returncode is None:
            if file.exists() and (lines := file.read_text().splitlines()):
                return int(lines[0])
            await anyio.sleep(0.05)
    return None


async def _end(process: anyio.abc.Process) -> None:
    """Its own processes are in its own session, and end with it."""
    for signal in (15, 9):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal)
        with anyio.move_on_after(10, shield=True):
            await process.wait()
            return
