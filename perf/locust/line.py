"""What a caller needs of a wire: blocking, one thread speaks and one listens. Works under gevent and without it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

__all__ = ["Heard", "Line", "LineBroken", "LineRefused", "OnHeard", "Opened", "start_listening"]


class Heard(StrEnum):
    """What the far side said, as far as a caller's behaviour depends on it."""

    REPLY = "reply"
    AUDIO = "audio"
    REPLY_OVER = "reply_over"
    GONE = "gone"
    """The line is over, for whatever reason; nothing follows."""


OnHeard = Callable[[Heard, float], None]
"""Called by the listening thread: what, and with AUDIO its seconds."""


class LineRefused(Exception):
    """No place was given; the text is the refusal's code."""


class LineBroken(Exception):
    """The line could not be opened, or broke."""


@dataclass(frozen=True, slots=True)
class Opened:
    session_id: str
    runtime_id: str


class Line(Protocol):
    """One session: `open`, then the rest, then `goodbye` or `cut`, always one of them."""

    def open(self, heard: OnHeard) -> Opened:
        """Asks for a place and starts a session; returns when the session has answered. Raises LineRefused, LineBroken."""
        ...

    def speak(self, *, is_voiced: bool) -> None:
        """Sends one frame of speech or of silence. Raises LineBroken."""
        ...

    def cancel_reply(self) -> None:
        """Stops the running reply by message. Raises LineBroken."""
        ...

    def goodbye(self) -> None:
        """Ends the session in order and waits until the far side has ended it too. Raises LineBroken."""
        ...

    def cut(self) -> None:
        """Ends the connection without a word."""
        ...


def start_listening(listen: Callable[[], None], name: str) -> threading.Thread:
    """Runs `listen` in a daemon thread; under gevent that is a greenlet."""
    thread = threading.Thread(target=listen, name=name, daemon=True)
    thread.start()
    return thread
