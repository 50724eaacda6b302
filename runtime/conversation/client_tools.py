"""Asks the client to run tools of its own, and gives its answers to the replies that wait for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import anyio

from runtime.dialogue.agent import Json, ToolFailure
from runtime.dialogue.agent_events import AgentEvent, ToolRequested
from runtime.dialogue.caller_events import ToolOutput
from runtime.dialogue.checkpoint import ClientToolsState
from runtime.dialogue.session_settings import ClientTool
from runtime.dialogue.strict_json import read_json
from runtime.dialogue.unicode_text import whole

__all__ = ["ClientTools"]

_DEADLINE_S: Final = 60.0
"""A client may ask a person; the caller on the line waits no longer."""


class _Asked:
    def __init__(self) -> None:
        self.answered = anyio.Event()
        self.output: ToolOutput | None = None


class ClientTools:
    """The client's tools of one session.

    Attributes:
        declared: by name; the session's settings say which.
    """

    def __init__(self) -> None:
        self.declared: Mapping[str, ClientTool] = {}
        self._asked: dict[str, _Asked] = {}
        self._told: set[str] = set()
        self._answered: dict[str, ToolOutput] = {}

    def begin(self) -> None:
        """Another reply runs: what the one before asked for is of no use any more."""
        self._told.clear()
        self._answered.clear()

    @property
    def state(self) -> ClientToolsState:
        """What `go_on` goes on from."""
        return ClientToolsState(tuple(sorted(self._told)), tuple(self._answered.values()))

    def go_on(self, state: ClientToolsState) -> None:
        """In another process the client was asked, and has answered, this much: it is asked for nothing twice."""
        self._told = set(state.asked)
        self._answered = {output.call_id: output for output in state.answered}

    async def ask(self, request: ToolRequested, emit: Callable[[AgentEvent], None], deadline_s: float = _DEADLINE_S) -> Json:
        """Waits for the client's answer: its JSON value, or its text where it is none.

        Raises ToolFailure where none came in time or the client says that the tool failed. A cancel forgets the question.
        """
        asked = self._asked[request.call_id] = _Asked()
        try:
            if request.call_id not in self._told:
                self._told.add(request.call_id)
                emit(request)
            if request.call_id in self._answered:
                self.answer(self._answered[request.call_id])
            with anyio.fail_after(deadline_s):
                await asked.answered.wait()
        except TimeoutError:
            raise ToolFailure(f"{request.name} was not answered in time", outcome_is_unknown=True) from None
        finally:
            del self._asked[request.call_id]
        assert asked.output is not None, "set before the event"
        if asked.output.is_error:
            raise ToolFailure(whole(asked.output.output) or f"{request.name} failed")
        try:
            return read_json(asked.output.output)
        except ValueError:
            return whole(asked.output.output)

    def answer(self, output: ToolOutput) -> bool:
        """False where no call of that id waits."""
        asked = self._asked.get(output.call_id)
        if asked is None or asked.output is not None:
            return False
        asked.output = self._answered[output.call_id] = output
        asked.answered.set()
        return True
