"""What the caller says with a turn: its words, after an interruption those of all turns that belong together. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runtime.dialogue.agent import Role, Said, Turn

__all__ = ["Utterance", "has_words", "utterance_of"]


@dataclass(frozen=True, slots=True)
class Utterance:
    """`parts` are the texts that make it up, oldest first, none empty; more than one where the caller went on over a reply."""

    parts: tuple[str, ...]

    @property
    def text(self) -> str:
        return " ".join(self.parts)

    @property
    def is_continued(self) -> bool:
        return len(self.parts) > 1


def utterance_of(turn: Turn) -> Utterance:
    """Who talks over a reply has not finished: everything since the last reply that was heard whole is one utterance."""
    parts = [turn.text, *_unanswered(turn.history)]
    spoken = (" ".join(part.split()) for part in reversed(parts))
    return Utterance(tuple(part for part in spoken if has_words(part)))


def has_words(text: str) -> bool:
    """Whether there is anything in it that is said: a letter, a digit, or a sign with a name."""
    return any(character.isalnum() or character in "%&" for character in text)


def _unanswered(history: Sequence[Said]) -> list[str]:
    """The caller's texts since the last complete reply, newest first."""
    texts = []
    for said in reversed(history):
        if said.role is Role.AGENT and said.is_complete:
            break
        if said.role is Role.CALLER:
            texts.append(said.text)
    return texts
