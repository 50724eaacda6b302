"""Tools' intents, kept by the relay that holds the caller's connection: they outlive this process; only a live leg is heard."""

from __future__ import annotations

from typing import Final

import anyio

from protos.switchboard.v1 import continuity_pb2 as pb
from runtime.dialogue.agent import ToolFailure
from runtime.dialogue.intents import Intent, IntentOutcome, IntentRecord, IntentState
from runtime.transport.asides import Asides

__all__ = ["RelayIntents"]

_ANSWER_S: Final = 5.0
_STATES: Final = {
    pb.INTENT_STATE_FRESH: IntentState.FRESH,
    pb.INTENT_STATE_FINISHED: IntentState.FINISHED,
    pb.INTENT_STATE_UNKNOWN: IntentState.UNKNOWN,
}


class RelayIntents:
    """As the port. A leg that was replaced gets no answer, and so begins nothing."""

    def __init__(self, asides: Asides) -> None:
        self._asides = asides
        self._number = 0
        self._waiting: dict[int, anyio.Event] = {}
        self._answers: dict[int, pb.IntentAnswer] = {}

    async def begin(self, intent: Intent) -> IntentRecord:
        """Raises ToolFailure where the relay does not answer, or has no room."""
        begun = pb.IntentBegun(number=self._next(), key=intent.key, tool=intent.tool, arguments_json=intent.arguments_json)
        answer = await self._asked(begun.number, pb.RuntimeAside(intent_begun=begun))
        state = None if answer is None else _STATES.get(answer.state)
        if answer is None or state is None:
            raise ToolFailure(f"{intent.tool} cannot be run now")
        outcome = IntentOutcome(answer.result_json, answer.is_error) if state is IntentState.FINISHED else None
        return IntentRecord(state, outcome)

    async def finish(self, intent: Intent, outcome: IntentOutcome) -> None:
        """Returns when the relay has it, or is gone."""
        finished = pb.IntentFinished(
            number=self._next(),
            key=intent.key,
            tool=intent.tool,
            arguments_json=intent.arguments_json,
            result_json=outcome.result_json,
            is_error=outcome.is_error,
        )
        await self._asked(finished.number, pb.RuntimeAside(intent_finished=finished))

    def answered(self, answer: pb.IntentAnswer) -> None:
        waiting = self._waiting.get(answer.number)
        if waiting is not None:
            self._answers[answer.number] = answer
            waiting.set()

    def _next(self) -> int:
        self._number += 1
        return self._number

    async def _asked(self, number: int, aside: pb.RuntimeAside) -> pb.IntentAnswer | None:
        self._waiting[number] = anyio.Event()
        self._asides.say(aside)
        try:
            with anyio.move_on_after(_ANSWER_S):
                await self._waiting[number].wait()
        finally:
            del self._waiting[number]
        return self._answers.pop(number, None)
