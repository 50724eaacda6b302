"""Greetings, thanks and goodbyes: what is said around the matter itself. Pure."""

from __future__ import annotations

from typing import Final

__all__ = ["courtesy_reply"]

_PARTING_TEXT: Final = "thanks thank cheers bye goodbye no nope nothing have night later"
_GREETING_TEXT: Final = "hello hi hey morning afternoon evening"
_ASSENT_TEXT: Final = "yes yeah yep sure okay ok please alright"
_AROUND_TEXT: Final = (
    "a again all and day else everything for fine good great is it kind lot many much nice now of perfect right see so soon "
    "that the there tonight too very weekend well wonderful you your help"
)
_PARTING: Final = frozenset(_PARTING_TEXT.split())
_GREETING: Final = frozenset(_GREETING_TEXT.split())
_ASSENT: Final = frozenset(_ASSENT_TEXT.split())
_ALL: Final = _PARTING | _GREETING | _ASSENT | frozenset(_AROUND_TEXT.split())


def courtesy_reply(plain_text: str) -> str | None:
    """What to answer to a text that is nothing but courtesy; None for any other text.

    >>> courtesy_reply("thank you , bye ,"), courtesy_reply("thank ann for me ,")
    ('Thank you for calling. Goodbye.', None)
    """
    words = frozenset(plain_text.replace(",", " ").split())
    if not words <= _ALL:
        return None
    if words & _PARTING or {"that", "all"} <= words:
        return "Thank you for calling. Goodbye."
    if words & _GREETING:
        return "Welcome. How can I help you?"
    if words & _ASSENT or "all right" in plain_text:
        return "What can I do for you?"
    return None
