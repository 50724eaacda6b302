"""What both directions of a Realtime session must know of each other: items by id, what was sent of them, open tool calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

__all__ = ["Continue", "Item", "ItemWish", "KeepItem", "RealtimeMemory", "Truncate"]

_MOST_ITEMS: Final = 1_000
_MOST_CHARACTERS: Final = 256 * 1024

Item: TypeAlias = dict[str, Any]  # Any: JSON


@dataclass(frozen=True, slots=True)
class ItemWish:
    """The client asks for an item."""

    item_id: str
    event_id: str


@dataclass(frozen=True, slots=True)
class KeepItem:
    """An item that the client puts in and the conversation takes no notice of: a tool's output, a call of another session."""

    item: Item


@dataclass(frozen=True, slots=True)
class Truncate:
    item_id: str
    content_index: int
    audio_end_ms: int


@dataclass(frozen=True, slots=True)
class Continue:
    """The client asks for the reply that waits for its tools to go on: on this wire, a response of its own."""

    generation: int


@dataclass(slots=True)
class RealtimeMemory:
    """Written by the encoder as things are told, read by the decoder as the client refers to them. Bounded: the oldest items go.

    Plain values throughout: it is part of a checkpoint.

    Attributes:
        response_id: of the running response; empty where none runs.
        waiting_generation: of the reply that waits for the client's tools; 0: none does.
        open_calls: ids of the tool calls that wait for an output.
        outputs: what came for them, until the client asks to go on.
    """

    response_id: str = ""
    waiting_generation: int = 0
    open_calls: set[str] = field(default_factory=set)
    outputs: dict[str, str] = field(default_factory=dict)
    _known_calls: set[str] = field(default_factory=set)
    _items: dict[str, Item] = field(default_factory=dict)
    _on_the_way: set[str] = field(default_factory=set)
    _sizes: dict[str, int] = field(default_factory=dict)
    _characters: int = 0
    _replies: dict[str, tuple[int, str]] = field(default_factory=dict)
    _sent_ms: dict[str, float] = field(default_factory=dict)

    def keep(self, item: Item) -> None:
        """A new item, or the newer form of one that is known."""
        item_id = str(item["id"])
        self._on_the_way.discard(item_id)
        self._characters -= self._sizes.pop(item_id, 0)
        self._items[item_id] = item
        self._sizes[item_id] = size = _size(item)
        self._characters += size
        while len(self._items) > 1 and (len(self._items) > _MOST_ITEMS or self._characters > _MOST_CHARACTERS):
            self.forget(next(iter(self._items)))

    def expect(self, item_id: str) -> None:
        """The client has named an item of its own: it may speak of it before it was told that the item is there."""
        if len(self._on_the_way) < _MOST_ITEMS:
            self._on_the_way.add(item_id)

    def has(self, item_id: str) -> bool:
        """Whether there is such an item, or will be as soon as what the client has sent was worked through."""
        return item_id in self._items or item_id in self._on_the_way

    def forget(self, item_id: str) -> None:
        self._items.pop(item_id, None)
        self._characters -= self._sizes.pop(item_id, 0)
        self._replies.pop(item_id, None)
        self._sent_ms.pop(item_id, None)

    def item(self, item_id: str) -> Item | None:
        return self._items.get(item_id)

    def is_reply(self, item_id: str, generation: int, root_id: str) -> None:
        """This item holds speech of a reply; the conversation knows the whole reply as `root_id`."""
        self._replies[item_id] = (generation, root_id)

    def reply_of(self, item_id: str) -> tuple[int, str] | None:
        return self._replies.get(item_id)

    def root_of(self, item_id: str) -> str:
        """The conversation's own name of an item."""
        reply = self._replies.get(item_id)
        return item_id if reply is None else reply[1]

    def sent(self, item_id: str, audio_ms: float) -> None:
        self._sent_ms[item_id] = self._sent_ms.get(item_id, 0.0) + audio_ms

    def sent_ms(self, item_id: str) -> int:
        return int(self._sent_ms.get(item_id, 0.0))

    def call_opened(self, call_id: str, generation: int) -> None:
        self.open_calls.add(call_id)
        self.call_known(call_id)
        self.waiting_generation = generation

    def call_known(self, call_id: str) -> None:
        if len(self._known_calls) < _MOST_ITEMS:
            self._known_calls.add(call_id)

    def knows_call(self, call_id: str) -> bool:
        return call_id in self._known_calls

    def answered_calls(self) -> list[tuple[str, str]]:
        """Calls that have their output, with it; they are no longer open."""
        answered = [(call_id, self.outputs.pop(call_id)) for call_id in sorted(self.open_calls & self.outputs.keys())]
        self.open_calls.difference_update(call_id for call_id, _ in answered)
        return answered

    def calls_over(self) -> None:
        """Nobody waits for an output any more."""
        self.open_calls.clear()
        self.outputs.clear()
        self.waiting_generation = 0


def _size(item: Item) -> int:
    parts = item.get("content") or ()
    texts = [item.get("arguments"), item.get("output"), *(part.get("text") or part.get("transcript") for part in parts)]
    return 64 + sum(len(text) for text in texts if isinstance(text, str))
