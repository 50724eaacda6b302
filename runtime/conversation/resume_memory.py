"""Resume tokens in the memory of this process: enough where a caller comes back to the process that it left, and for tests."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

__all__ = ["ResumeMemory"]


class ResumeMemory:
    """Holds the latest token of at most `limit` sessions; the oldest go first.

    Args:
        make_token: answers a new secret each time, unguessable and safe in a URL.
    """

    def __init__(self, make_token: Callable[[], str], limit: int = 10_000) -> None:
        if limit < 1:
            raise ValueError(f"limit is {limit}; allowed: 1 and up")
        self._make_token = make_token
        self._limit = limit
        self._tokens: OrderedDict[str, str] = OrderedDict()
        self._sessions: dict[str, str] = {}

    def issue(self, session_id: str) -> str:
        """As the port."""
        self.forget(session_id)
        token = self._make_token()
        self._tokens[session_id] = token
        self._sessions[token] = session_id
        if len(self._tokens) > self._limit:
            self.forget(next(iter(self._tokens)))
        return token

    def redeem(self, token: str) -> str | None:
        """As the port."""
        session_id = self._sessions.get(token)
        if session_id is not None:
            self.forget(session_id)
        return session_id

    def forget(self, session_id: str) -> None:
        """As the port."""
        token = self._tokens.pop(session_id, None)
        if token is not None:
            del self._sessions[token]
