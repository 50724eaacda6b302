"""What both sides have said, as far as it was heard."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from runtime.dialogue.agent import Role, Said

__all__ = ["Context", "heard_part"]

_CHARACTERS_KEPT: Final = 64 * 1024


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
    """The history of a session, oldest first, bounded by characters: the oldest go first."""

    def __init__(self) -> None:
        self._said: deque[Said] = deque()
        self._characters = 0

    def restore(self, history: Sequence[Said]) -> None:
        """Goes on from another's history."""
        for said in history:
            self._add(said)

    @property
    def history(self) -> Sequence[Said]:
        return tuple(self._said)

    def caller_said(self, text: str, item_id: str = "") -> None:
        self._add(Said(Role.CALLER, text, item_id=item_id))

    def add(self, role: Role, text: str, item_id: str) -> None:
        """An item that the client puts in, on anybody's part."""
        self._add(Said(role, text, item_id=item_id))

    def forget(self, item_id: str) -> bool:
        """Takes an item out. False where there is none of that name."""
        for said in self._said:
            if said.item_id == item_id:
                self._said.remove(said)
                self._characters -= len(said.text)
                return True
        return False

    def agent_said(self, text: str, *, is_complete: bool, item_id: str = "") -> None:
        self._add(Said(Role.AGENT, text, is_complete, item_id))

    def correct_agent(self, text: str) -> None:
        """The caller reports what was really heard of the newest reply; a reply that was heard whole stays complete."""
        for index in range(len(self._said) - 1, -1, -1):
            said = self._said[index]
            if said.role is Role.AGENT:
                if not (said.is_complete and text == said.text):
                    self._characters += len(text) - len(said.text)
                    self._said[index] = replace(said, text=text, is_complete=False)
                return

    def _add(self, said: Said) -> None:
        self._said.append(said)
        self._characters += len(said.text)
        while self._characters > _CHARACTERS_KEPT and len(self._said) > 1:
            self._characters -= len(self._said.popleft().text)
