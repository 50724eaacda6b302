"""A tool with an effect runs once, whoever asks, however often and in whatever order."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from balancer.continuity.intents import IntentAnswer, IntentName, Intents, IntentState

PAY = IntentName("c:1:1", "pay", '{"cents":5}')


def test_the_first_who_asks_runs_it_and_later_ones_hear_what_became_of_it() -> None:
    intents = Intents()
    assert intents.begin(1, PAY).state is IntentState.FRESH
    assert intents.begin(1, PAY).state is IntentState.UNKNOWN
    assert intents.begin(2, PAY).state is IntentState.UNKNOWN
    assert intents.finish(2, PAY, "7", is_error=False).state is IntentState.RECORDED
    assert intents.begin(3, PAY) == IntentAnswer(IntentState.FINISHED, "7", False)


def test_other_arguments_are_another_intent_and_the_first_stays_known() -> None:
    intents = Intents()
    other = IntentName(PAY.key, PAY.tool, '{"cents":6}')
    assert intents.begin(1, PAY).state is IntentState.FRESH
    assert intents.begin(1, other).state is IntentState.FRESH
    assert intents.begin(1, PAY).state is IntentState.UNKNOWN


def test_an_older_leg_may_neither_begin_nor_record() -> None:
    intents = Intents()
    intents.begin(1, PAY)
    intents.begin(2, IntentName("c:2:1", "pay", "{}"))
    assert intents.finish(1, PAY, "7", is_error=False).state is IntentState.REFUSED
    assert intents.begin(1, IntentName("c:3:1", "pay", "{}")).state is IntentState.REFUSED
    assert intents.begin(2, PAY).state is IntentState.UNKNOWN


def test_an_outcome_is_recorded_once_and_only_of_what_was_begun() -> None:
    intents = Intents()
    assert intents.finish(1, PAY, "7", is_error=False).state is IntentState.REFUSED
    intents.begin(1, PAY)
    for state, result in ((IntentState.RECORDED, "7"), (IntentState.RECORDED, "7"), (IntentState.REFUSED, "8")):
        assert intents.finish(1, PAY, result, is_error=False).state is state
    assert intents.begin(1, PAY).result_json == "7"


def test_what_does_not_fit_is_refused_and_nothing_is_forgotten() -> None:
    intents = Intents()
    names = [IntentName(f"c:{number}:1", "pay", "{}") for number in range(1100)]
    states = [intents.begin(1, name).state for name in names]
    assert states == [IntentState.FRESH] * 1024 + [IntentState.REFUSED] * 76
    assert intents.begin(1, names[0]).state is IntentState.UNKNOWN
    intents = Intents()
    large = [IntentName(f"c:{number}:1", "pay", "x" * 16_384) for number in range(200)]
    fresh = sum(intents.begin(1, name).state is IntentState.FRESH for name in large)
    assert 120 < fresh < 128
    assert intents.size_bytes <= 2 * 1024 * 1024
    assert intents.finish(1, large[0], "x" * 20_000, is_error=False).state is IntentState.REFUSED
    assert intents.begin(1, large[0]).state is IntentState.UNKNOWN


class Story(RuleBasedStateMachine):
    """Legs come and go; a tool runs where FRESH is answered."""

    def __init__(self) -> None:
        super().__init__()
        self.intents = Intents()
        self.epoch = 1
        self.ran: dict[IntentName, int] = {}

    @rule()
    def move(self) -> None:
        self.epoch += 1

    @rule(turn=st.integers(1, 3), cents=st.integers(1, 2), age=st.integers(0, 1))
    def begin(self, turn: int, cents: int, age: int) -> None:
        name = IntentName(f"c:{turn}:1", "pay", str(cents))
        if self.intents.begin(max(1, self.epoch - age), name).state is IntentState.FRESH:
            self.ran[name] = self.ran.get(name, 0) + 1

    @rule(turn=st.integers(1, 3), cents=st.integers(1, 2), result=st.sampled_from("ab"))
    def finish(self, turn: int, cents: int, result: str) -> None:
        name = IntentName(f"c:{turn}:1", "pay", str(cents))
        recorded = self.intents.finish(self.epoch, name, result, is_error=False).state is IntentState.RECORDED
        assert not recorded or name in self.ran

    @invariant()
    def nothing_runs_twice(self) -> None:
        assert all(times == 1 for times in self.ran.values())


TestStory = Story.TestCase
