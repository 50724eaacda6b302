"""The agent with a real language model on this machine, where it is installed (`make local-llm`)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import anyio
import pytest

from runtime.dialogue.agent import Turn
from runtime.engines.llm import LlmAgent
from runtime.engines.llm.agent import GONE
from runtime.engines.llm.settings import LlmSettings

_ROOT = Path(__file__).parents[2]
_PYTHON = _ROOT / ".venv-llm" / "bin" / "python"

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.e2e,
    pytest.mark.skipif(not _PYTHON.exists(), reason="the local language model is not installed; run: make local-llm"),
]


@pytest.fixture(scope="module")
def address() -> Iterator[LlmSettings]:
    program = subprocess.Popen([_PYTHON, _ROOT / "examples" / "local_llm.py"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert program.stdout is not None
        while not (line := program.stdout.readline()).startswith(b"{"):
            assert line, "it ended before it was ready"
        ready = json.loads(line)
        yield LlmSettings(ready["url"], ready["model"], first_token_s=60.0, gap_s=60.0, most_tokens=40)
    finally:
        program.kill()
        program.wait()
        program.stdout.close()  # type: ignore[union-attr]  # it is a pipe


def _turn(text: str) -> Turn:
    async def no_tool(name: str, arguments: object) -> None:
        raise AssertionError

    return Turn(text=text, history=(), memory={}, call_tool=no_tool)


async def test_it_says_something_in_pieces(address: LlmSettings) -> None:
    with anyio.fail_after(110):
        pieces = [piece async for piece in LlmAgent(address).reply(_turn("Say hello to the caller."))]
    assert len(pieces) > 3
    assert GONE not in "".join(pieces)


async def test_it_can_be_interrupted_and_asked_again(address: LlmSettings) -> None:
    agent = LlmAgent(address)
    with anyio.fail_after(110):
        for _ in range(6):  # more than it has slots: one that was not freed would be missed
            reply = agent.reply(_turn("Count from one to one hundred."))
            assert isinstance(reply, AsyncGenerator)
            assert await anext(reply)
            await reply.aclose()
