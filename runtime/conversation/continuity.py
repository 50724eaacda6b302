"""What a runtime needs of those who keep its calls, so that they outlive it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from runtime.conversation.conversation import Conversation
from runtime.conversation.ports import IntentStore
from runtime.conversation.resumption import KeptMessage
from runtime.dialogue.checkpoint import Checkpoint

__all__ = ["Adopted", "Continuity"]


@dataclass(frozen=True, slots=True)
class Adopted:
    """What a leg that adopts a session goes on from. `audio`: as `Conversation.restore` takes it."""

    checkpoint: Checkpoint
    audio: Sequence[KeptMessage]


class Continuity(Protocol):
    """What makes a call outlive this process: somebody holds its caller's connection, keeps its checkpoints and moves it."""

    @property
    def adopted(self) -> Adopted | None:
        """What it goes on from; None: it begins here."""
        ...

    @property
    def intents(self) -> IntentStore:
        """Where its tools' intents are kept."""
        ...

    def cannot_go_on(self, error: Exception) -> None:
        """What was adopted is of no use here. Never waits."""
        ...

    async def attend(self, conversation: Conversation) -> None:
        """Passes orders on to the conversation, for as long as it runs."""
        ...
