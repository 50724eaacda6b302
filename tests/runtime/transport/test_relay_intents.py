"""A tool begins only with the relay's leave, and what came of it is recorded there."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest

from protos.switchboard.v1 import continuity_pb2 as pb
from runtime.dialogue.agent import ToolFailure
from runtime.dialogue.intents import Intent, IntentOutcome, IntentRecord, IntentState
from runtime.transport import relay_intents
from runtime.transport.relay_intents import RelayIntents

pytestmark = pytest.mark.anyio

_INTENT = Intent("s", 2, "s:1:1", "book", '{"people": 4}')


class _Relay:
    """Answers as the test says; None: not at all."""

    def __init__(self, answer: Callable[[int], pb.IntentAnswer | None]) -> None:
        self.heard: list[pb.RuntimeAside] = []
        self._answer = answer
        self.intents = RelayIntents(self)  # type: ignore[arg-type]  # it is asked to say, and that only

    def say(self, aside: pb.RuntimeAside) -> None:
        self.heard.append(aside)
        said = aside.intent_begun if aside.WhichOneof("said") == "intent_begun" else aside.intent_finished
        answer = self._answer(said.number)
        if answer is not None:
            self.intents.answered(answer)


@pytest.mark.parametrize(
    ("answer", "record"),
    [
        (pb.IntentAnswer(state=pb.INTENT_STATE_FRESH), IntentRecord(IntentState.FRESH)),
        (pb.IntentAnswer(state=pb.INTENT_STATE_UNKNOWN), IntentRecord(IntentState.UNKNOWN)),
        (
            pb.IntentAnswer(state=pb.INTENT_STATE_FINISHED, result_json="7", is_error=True),
            IntentRecord(IntentState.FINISHED, IntentOutcome("7", is_error=True)),
        ),
    ],
)
async def test_what_the_relay_knows_is_the_answer(answer: pb.IntentAnswer, record: IntentRecord) -> None:
    def numbered(number: int) -> pb.IntentAnswer:
        answer.number = number
        return answer

    relay = _Relay(numbered)
    assert await relay.intents.begin(_INTENT) == record
    begun = relay.heard[0].intent_begun
    assert (begun.key, begun.tool, begun.arguments_json) == ("s:1:1", "book", '{"people": 4}')


async def test_no_leave_is_no_beginning(monkeypatch: pytest.MonkeyPatch) -> None:  # requirement R, decision 10
    monkeypatch.setattr(relay_intents, "_ANSWER_S", 0.0)
    for answer in (lambda _: None, lambda number: pb.IntentAnswer(number=number, state=pb.INTENT_STATE_REFUSED)):
        with pytest.raises(ToolFailure, match="cannot be run now") as refused:
            await _Relay(answer).intents.begin(_INTENT)
        assert not refused.value.outcome_is_unknown


async def test_an_outcome_is_recorded_before_it_is_spoken_of() -> None:
    relay = _Relay(lambda _: None)
    async with anyio.create_task_group() as group:
        finished = anyio.Event()

        async def finish() -> None:
            await relay.intents.finish(_INTENT, IntentOutcome('"done"', is_error=False))
            finished.set()

        group.start_soon(finish)
        await anyio.wait_all_tasks_blocked()
        assert not finished.is_set()
        said = relay.heard[0].intent_finished
        assert (said.key, said.result_json, said.is_error) == ("s:1:1", '"done"', False)
        relay.intents.answered(pb.IntentAnswer(number=said.number + 1))  # another's
        await anyio.wait_all_tasks_blocked()
        assert not finished.is_set()
        relay.intents.answered(pb.IntentAnswer(number=said.number))
