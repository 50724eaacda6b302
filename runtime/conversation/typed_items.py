"""What a client puts into the conversation as text, and takes out of it."""

from __future__ import annotations

from collections.abc import Callable

from runtime.dialogue.agent_events import AgentEvent, ItemDeleted, TextAdded
from runtime.dialogue.caller_events import DeleteItem, SayText
from runtime.dialogue.context import Context
from runtime.dialogue.items import Items

__all__ = ["TypedItems"]


class TypedItems:
    """Changes the order of items and the agent's history together, and tells the client."""

    def __init__(self, items: Items, context: Context, emit: Callable[[AgentEvent], None]) -> None:
        self._items = items
        self._context = context
        self._emit = emit

    def add(self, said: SayText) -> None:
        item_id, previous = self._items.add(said.item_id)
        self._context.add(said.role, said.text, item_id)
        self._emit(TextAdded(item_id, previous, said.text, said.role))

    def delete(self, wish: DeleteItem) -> None:
        """An item without words is in no history, and goes as well: the wire knows which items there are."""
        self._context.forget(wish.item_id)
        self._emit(ItemDeleted(wish.item_id))
