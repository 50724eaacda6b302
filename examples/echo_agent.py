"""The smallest agent worth the name: it repeats what it heard and counts by a tool.

    python -m runtime --agent examples.echo_agent:EchoAgent

One object serves all calls at once, so what belongs to a call goes into `turn.memory`, which moves with the call.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from runtime.dialogue.agent import Json, Tool, Turn


async def count_words(arguments: Mapping[str, Json], _idempotency_key: str) -> Json:
    """Takes JSON, gives JSON. A tool that changes the world keeps the key, so that it acts once however often it is tried."""
    return len(str(arguments["text"]).split())


class EchoAgent:
    """What `runtime.dialogue.agent.Agent` asks for: a name, tools and a reply."""

    name = "echo"
    tools = (
        Tool(
            name="count_words",
            description="Counts the words of a text.",
            parameters={"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
            run=count_words,
            is_idempotent=True,
        ),
    )

    async def reply(self, turn: Turn) -> AsyncIterator[str]:
        """Speech starts with the first whole sentence, so say something before slow work."""
        yield f"You said: {turn.text or 'nothing that I understood'}. "
        words = await turn.call_tool("count_words", {"text": turn.text})
        turn.memory["turns"] = turns = int(str(turn.memory.get("turns", 0))) + 1
        yield f"That was {words} words, and turn number {turns}."
