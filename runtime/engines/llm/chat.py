"""One streamed chat completion: text as it comes, and the tool calls that it ends in."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from runtime.engines.llm.http_lines import HttpLines, LlmUnavailable
from runtime.engines.llm.settings import LlmSettings

__all__ = ["ChatStream", "ToolCall"]

_DONE: Final = "[DONE]"
_MOST_CALLS: Final = 16


@dataclass(slots=True)
class ToolCall:
    """`arguments`: JSON text, as the model wrote it."""

    call_id: str = ""
    name: str = ""
    arguments: str = ""


class ChatStream:
    """`next_text` may be cancelled and called again.

    Attributes:
        calls: the tools that the model wants to be run, whole once `next_text` has answered None.
    """

    def __init__(self, settings: LlmSettings, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> None:
        self.calls: list[ToolCall] = []
        request: dict[str, Any] = {
            "model": settings.model,
            "messages": messages,
            "stream": True,
            "max_tokens": settings.most_tokens,
        }
        if tools:
            request["tools"] = tools
        headers = [("Content-Type", "application/json"), ("Accept", "text/event-stream")]
        if settings.api_key:
            headers.append(("Authorization", f"Bearer {settings.api_key}"))
        self._lines = HttpLines(settings.url.rstrip("/") + "/chat/completions", headers, json.dumps(request).encode())

    async def next_text(self) -> str | None:
        """The next piece of text, never empty; None at the end. Raises LlmUnavailable."""
        while (line := await self._lines.next_line()) is not None:
            if not line.startswith("data:"):
                continue  # comments, names of events and blank lines between them
            data = line.removeprefix("data:").strip()
            if data == _DONE:
                return None
            text = self._take(data)
            if text:
                return text
        return None

    async def aclose(self) -> None:
        await self._lines.aclose()

    def _take(self, data: str) -> str:
        try:
            chunk = json.loads(data)
            if "error" in chunk:
                raise LlmUnavailable("it broke off with an error of its own")
            choices = chunk.get("choices") or [{}]
            delta = choices[0].get("delta") or {}
            for part in delta.get("tool_calls") or ():
                self._take_call(part)
            text = delta.get("content") or ""
        except (ValueError, AttributeError, TypeError, KeyError, IndexError, RecursionError) as error:
            raise LlmUnavailable("it sent what is no chat completion") from error
        return text if isinstance(text, str) else ""

    def _take_call(self, part: dict[str, Any]) -> None:
        """A call comes in fragments: its name with the first, its arguments spread over all."""
        index = int(part.get("index", 0))
        if not 0 <= index < _MOST_CALLS:
            raise LlmUnavailable(f"it wants tool number {index}; allowed: 0 to {_MOST_CALLS - 1}")
        while len(self.calls) <= index:
            self.calls.append(ToolCall())
        call, function = self.calls[index], part.get("function") or {}
        call.call_id = part.get("id") or call.call_id
        call.name += function.get("name") or ""
        call.arguments += function.get("arguments") or ""
