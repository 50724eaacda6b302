"""Items that a client puts in and takes out."""

from __future__ import annotations

from runtime.conversation.typed_items import TypedItems
from runtime.dialogue.agent import Role
from runtime.dialogue.agent_events import AgentEvent, ItemDeleted, TextAdded
from runtime.dialogue.caller_events import DeleteItem, SayText
from runtime.dialogue.context import Context
from runtime.dialogue.items import Items


def test_items_come_and_go_and_the_history_with_them() -> None:
    context = Context()
    told: list[AgentEvent] = []
    items = TypedItems(Items(), context, told.append)
    items.add(SayText("be kind", "a", Role.SYSTEM))
    items.add(SayText("hello", "b"))
    assert [(said.role, said.text) for said in context.history] == [(Role.SYSTEM, "be kind"), (Role.CALLER, "hello")]
    items.delete(DeleteItem("a"))
    assert [said.text for said in context.history] == ["hello"]
    assert told == [TextAdded("a", "", "be kind", Role.SYSTEM), TextAdded("b", "a", "hello"), ItemDeleted("a")]
