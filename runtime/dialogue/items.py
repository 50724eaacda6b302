"""The order of what was said: item ids, and which item follows which."""

from __future__ import annotations

__all__ = ["Items"]


class Items:
    """Numbers the items of one session. An item is `open` while its speech is still being heard."""

    def __init__(self) -> None:
        self._count = 0
        self._last_id = ""
        self._open_id = ""

    def restore(self, state: tuple[int, str, str]) -> None:
        self._count, self._last_id, self._open_id = state

    @property
    def state(self) -> tuple[int, str, str]:
        """What `restore` goes on from."""
        return self._count, self._last_id, self._open_id

    def open(self) -> str:
        """Names the item that the caller has begun to speak."""
        self._open_id = self._next_id()
        return self._open_id

    @property
    def open_id(self) -> str:
        """Empty where nothing is open."""
        return self._open_id

    def forget_open(self) -> None:
        self._open_id = ""

    def commit(self) -> tuple[str, str]:
        """The open item, or a new one where none is, joins the order. Answers its id and its predecessor's."""
        item_id = self._open_id or self._next_id()
        self._open_id = ""
        return self._join(item_id)

    def add(self, wished_id: str = "") -> tuple[str, str]:
        """A new item joins the order, under the wished id where one is given."""
        return self._join(wished_id or self._next_id())

    def withdraw(self, item_id: str, previous: str) -> None:
        """An item that joined the order as its last, after `previous`, leaves it again."""
        if self._last_id == item_id:
            self._last_id = previous

    def _join(self, item_id: str) -> tuple[str, str]:
        previous, self._last_id = self._last_id, item_id
        return item_id, previous

    def _next_id(self) -> str:
        self._count += 1
        return f"item_{self._count:04d}"
