"""What both sides have said, as far as it was heard."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from runtime.dialogue.agent import Role, Said

__all__ = ["Context", "heard_part"]

_CHARACTERS_KEPT: Final = 64 * 1024
_ENTRIES_KEPT: Final = 1_024
"""Each costs some hundred bytes, however little was said. One a second fills this in a quarter of an hour."""


def heard_part(text: str, heard_ms: int, audio_ms: int) -> str:
    """The words of `text` that were heard when `heard_ms` of its `audio_ms` of audio were played, cut back to whole words.

    Speech is taken as even: character position = length * heard / audio.

    >>> heard_part("one two three four", 500, 1000)
    'one two'
    """
    if audio_ms <= 0 or heard_ms <= 0:
        return ""
    if heard_ms >= audio_ms:
        return text
    position = int(len(text) * heard_ms / audio_ms)
    if position < len(text) and not text[position].isspace():
        position = text.rfind(" ", 0, position + 1)
    return text[: max(0, position)].rstrip()


class Context:
    """The history of a session, oldest first, bounded by characters and by entries: the oldest go first.

    Entries are numbered as they come. A reply joins behind what had been said when it began, whatever was said meanwhile.
    """

    def __init__(self) -> None:
        self._said: deque[tuple[int, Said]] = deque()
        self._characters = 0
        self._number = 0

    def restore(self, history: Sequence[Said]) -> None:
        """Goes on from another's history."""
        for said in history:
            self._add(said)

    @property
    def history(self) -> Sequence[Said]:
        return tuple(said for _, said in self._said)

    @property
    def newest(self) -> int:
        """The number of what was said last; 0: nothing was."""
        return self._number

    def up_to(self, number: int) -> Sequence[Said]:
        """The history as far as that number."""
        return tuple(said for each, said in self._said if each <= number)

    def caller_said(self, text: str, item_id: str = "") -> None:
        self._add(Said(Role.CALLER, text, item_id=item_id))

    def add(self, role: Role, text: str, item_id: str) -> None:
        """An item that the client puts in, on anybody's part."""
        self._add(Said(role, text, item_id=item_id))

    def forget(self, item_id: str) -> bool:
        """Takes an item out. False where there is none of that name."""
        at = self._index(item_id)
        if at is None:
            return False
        self._characters -= len(self._said[at][1].text)
        del self._said[at]
        return True

    def agent_said(self, text: str, *, is_complete: bool, item_id: str = "", behind: int | None = None) -> None:
        """`behind`: the number of what had been said when the reply began; None: all that is here."""
        at = len(self._said)
        while behind is not None and at and self._said[at - 1][0] > behind:
            at -= 1
        self._insert(at, self._number if behind is None else behind, Said(Role.AGENT, text, is_complete, item_id))

    def correct_agent(self, item_id: str, text: str, *, is_complete: bool = False) -> None:
        """The caller reports what was really heard of a reply, maybe more each time: `is_complete` once it is all of it. One that
        was heard whole stays complete."""
        at = self._index(item_id)
        if at is None:
            return
        number, said = self._said[at]
        if not (said.is_complete and text == said.text):
            self._characters += len(text) - len(said.text)
            self._said[at] = number, replace(said, text=text, is_complete=is_complete)

    def _index(self, item_id: str) -> int | None:
        found = (at for at, (_, said) in enumerate(self._said) if said.item_id == item_id)
        return next(found, None) if item_id else None

    def _add(self, said: Said) -> None:
        self._number += 1
        self._insert(len(self._said), self._number, said)

    def _insert(self, at: int, number: int, said: Said) -> None:
        self._said.insert(at, (number, said))
        self._characters += len(said.text)
        while len(self._said) > 1 and (self._characters > _CHARACTERS_KEPT or len(self._said) > _ENTRIES_KEPT):
            self._characters -= len(self._said.popleft()[1].text)
