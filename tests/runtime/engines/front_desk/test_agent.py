"""The front desk over whole calls: what it does, what it says, and that it always says back what it heard."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perf.demo.scoring import contains_words
from runtime.dialogue.agent import Agent, Json, Role, Said, ToolFailure, Turn, TurnCause
from runtime.engines.front_desk import FrontDesk
from runtime.engines.front_desk.utterance import has_words

AGENT: Agent = FrontDesk()


@dataclass
class Call:
    """A caller and the agent, without a runtime: turns in, replies and tool calls out."""

    history: list[Said] = field(default_factory=list)
    memory: dict[str, Json] = field(default_factory=dict)
    ran: list[tuple[str, dict[str, Json]]] = field(default_factory=list)
    failure: ToolFailure | None = None

    def say(self, text: str, *, heard_of_reply: int | None = None) -> str:
        """The reply; `heard_of_reply` characters of it are heard before the caller goes on, None for all."""
        turn = Turn(text, tuple(self.history), self.memory, self._run_tool)
        reply = anyio.run(self._collect, turn)
        if text:
            self.history.append(Said(Role.CALLER, text))
        heard = reply if heard_of_reply is None else reply[:heard_of_reply]
        self.history.append(Said(Role.AGENT, heard, is_complete=heard_of_reply is None))
        self.memory = json.loads(json.dumps(self.memory))  # as it travels when a call moves
        return reply

    async def _collect(self, turn: Turn) -> str:
        return "".join([piece async for piece in AGENT.reply(turn)])

    async def _run_tool(self, name: str, arguments: Mapping[str, Json]) -> Json:
        self.ran.append((name, dict(arguments)))
        if self.failure:
            raise self.failure
        tool = {tool.name: tool for tool in AGENT.tools}[name]
        return await tool.run(arguments, f"key-{len(self.ran)}")


def test_who_is_asked_to_speak_first_greets_and_later_asks_again() -> None:
    async def reply(turn: Turn) -> str:
        return "".join([piece async for piece in AGENT.reply(turn)])

    begins = Turn("", (), {}, Call()._run_tool, cause=TurnCause.TYPED)
    assert anyio.run(reply, begins).startswith("Good day")
    goes_on = Turn("", (Said(Role.AGENT, "Hello."),), {}, Call()._run_tool, cause=TurnCause.TYPED)
    assert "did not understand" in anyio.run(reply, goes_on)


def test_everything_else_is_a_message_read_back_word_for_word() -> None:
    call = Call()
    assert call.say("Ten of clubs.") == "I have taken your message: Ten of clubs. Is there anything else?"
    assert call.say("Can you call me?") == "I have taken your message: Can you call me? Is there anything else?"
    assert call.ran == [("take_message", {"text": "Ten of clubs."}), ("take_message", {"text": "Can you call me?"})]


@pytest.mark.parametrize(
    ("question", "answer", "day"),
    [
        ("When are you open on Saturday?", "On Saturday we are open from nine to five.", "saturday"),
        ("what time do you close next friday", "On Friday we are open from nine in the morning to ten at night.", "friday"),
        ("Are you open on Sundays?", "On Sunday we are open from ten to four.", "sunday"),
        ("What are your hours?", "We are open Monday to Friday", None),
        ("Do you open tomorrow?", "I have no calendar here, but we are open Monday to Friday", None),
    ],
)
def test_hours(question: str, answer: str, day: str | None) -> None:
    call = Call()
    reply = call.say(question)
    assert reply.startswith("You asked: " + question.rstrip("?") + "? " + answer)
    assert call.ran == [("opening_hours", {"day": day} if day else {})]


@pytest.mark.parametrize("text", ["I left the window open.", "The shop is closed, tell Bob.", "I read a book about a table."])
def test_no_question_and_no_booking(text: str) -> None:
    call = Call()
    assert call.say(text).startswith("I have taken your message:")


def test_a_booking_in_one_sentence() -> None:
    call = Call()
    assert call.say("A table for four tomorrow at seven, under Ann.") == (
        "I heard: A table for four tomorrow at seven, under Ann. "
        "Your table for four tomorrow at seven in the evening is booked, under Ann. Is there anything else?"
    )
    assert call.ran == [("book_table", {"people": 4, "day": "tomorrow", "time": "19:00", "name": "Ann"})]


def test_a_booking_over_several_turns_asks_for_exactly_what_is_missing() -> None:
    call = Call()
    assert call.say("I'd like to book a table.").endswith("For how many people, on which day, at what time and under which name?")
    assert call.say("Four people, tomorrow.").endswith("tomorrow. At what time and under which name?")
    assert call.say("When are you open on Sunday?").endswith("from ten to four. At what time and under which name?")
    assert call.say("730.") == "I heard: 730. Under which name?"
    assert "Ann Smith. Your table for four tomorrow at seven thirty in the evening is booked" in call.say("Ann Smith.")
    assert call.ran[-1] == ("book_table", {"people": 4, "day": "tomorrow", "time": "19:30", "name": "Ann Smith"})
    assert call.say("Ten of clubs.").startswith("I have taken your message: Ten of clubs.")


def test_what_cannot_be_booked_is_said_and_asked_again() -> None:
    call = Call()
    assert call.say("A table for forty on Saturday, under Bob.").endswith(
        "A table seats one to twelve people. For how many people and at what time?"
    )
    assert call.say("Six.").endswith("At what time?")
    assert call.say("At 8 p.m.").endswith(
        "On Saturday, tables are given from nine in the morning to four in the afternoon. At what time?"
    )
    assert "table for six on Saturday at three in the afternoon is booked, under Bob." in call.say("Three.")


@pytest.mark.parametrize("text", ["Never mind.", "Please cancel that.", "No, thanks, bye."])
def test_a_booking_can_be_given_up(text: str) -> None:
    call = Call()
    call.say("A table for four, please.")
    assert "I book no table." in call.say(text)
    assert call.say("Ann Smith.").startswith("I have taken your message: Ann Smith.")
    assert [name for name, _ in call.ran] == ["take_message"]


def test_a_caller_who_talks_of_something_else_gets_a_message_taken() -> None:
    call = Call()
    call.say("I want a table.")
    assert call.say("The weather is nice.").startswith("I heard: The weather is nice. For how many")
    assert call.say("Tell Bob.").startswith("I have taken your message: Tell Bob.")


def test_an_interrupted_message_goes_on_and_replaces_the_first() -> None:
    call = Call()
    call.say("Please tell Mr. Smith", heard_of_reply=12)
    call.say("that I am late", heard_of_reply=0)
    assert call.say("by an hour.") == (
        "I have taken your message: Please tell Mr. Smith that I am late by an hour. Is there anything else?"
    )
    assert call.ran == [
        ("take_message", {"text": "Please tell Mr. Smith"}),
        ("take_message", {"text": "Please tell Mr. Smith that I am late", "replaces": "key-1"}),
        ("take_message", {"text": "Please tell Mr. Smith that I am late by an hour.", "replaces": "key-2"}),
    ]
    assert call.say("Call Ann.") == "I have taken your message: Call Ann. Is there anything else?"
    assert call.ran[-1] == ("take_message", {"text": "Call Ann."})


def test_an_interrupted_booking_goes_on_and_replaces_the_first() -> None:
    call = Call()
    call.say("A table for four tomorrow at seven under Ann.", heard_of_reply=30)
    reply = call.say("No, make it eight.")
    assert "tomorrow at seven under Ann. No, make it eight. Your table for four tomorrow at eight in the evening" in reply
    assert call.ran[-1] == ("book_table", {"people": 4, "day": "tomorrow", "time": "20:00", "name": "Ann", "replaces": "key-1"})


def test_the_end_of_a_booking_of_several_turns_can_go_on_too() -> None:
    call = Call()
    call.say("A table for four tomorrow at seven.")
    assert "is booked, under Ann." in call.say("Ann", heard_of_reply=12)
    assert "I heard: Ann Smith. Your table for four tomorrow" in call.say("Smith")
    assert call.ran[-1][1] == {"people": 4, "day": "tomorrow", "time": "19:00", "name": "Ann Smith", "replaces": "key-1"}


def test_an_answer_over_the_question_counts() -> None:
    call = Call()
    call.say("I'd like to book a table", heard_of_reply=40)
    assert call.say("four").endswith("a table four. On which day, at what time and under which name?")
    call = Call()
    call.say("I'd like to book a table for", heard_of_reply=5)
    assert call.say("two on Monday").endswith("a table for two on Monday. At what time and under which name?")


def test_nothing_understood_is_said_honestly() -> None:
    call = Call()
    for text in ("", "...", "🙂"):
        assert call.say(text) == "I am sorry, I did not understand that. Could you say it again, please?"
    call.say("Please tell Ann", heard_of_reply=3)
    assert call.say("") == "I am sorry, I did not catch that. So far I have: Please tell Ann. Please go on."
    assert [name for name, _ in call.ran] == ["take_message"]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Thank you, goodbye.", "You said: Thank you, goodbye. Thank you for calling. Goodbye."),
        ("No, that's all.", "You said: No, that's all. Thank you for calling. Goodbye."),
        ("Have a nice day!", "You said: Have a nice day. Thank you for calling. Goodbye."),
        ("Good morning", "You said: Good morning. Welcome. How can I help you?"),
        ("Yes, please.", "You said: Yes, please. What can I do for you?"),
        ("All right.", "You said: All right. What can I do for you?"),
    ],
)
def test_courtesy(text: str, answer: str) -> None:
    call = Call()
    assert call.say(text) == answer
    assert call.ran == []


@pytest.mark.parametrize("is_unknown", [False, True])
def test_a_tool_that_fails_is_told_and_the_words_are_still_said(is_unknown: bool) -> None:
    call = Call(failure=ToolFailure("disk", outcome_is_unknown=is_unknown))
    reply = call.say("Ten of clubs.")
    assert reply.startswith("I heard: Ten of clubs. I am ")
    assert ("not sure" in reply) is is_unknown
    reply = call.say("A table for two on Monday at noon under Al.")
    assert "under Al. I am " in reply


def test_the_reply_streams_in_small_pieces() -> None:
    async def pieces() -> list[str]:
        return [piece async for piece in AGENT.reply(Turn("one two three four five", (), {}, Call()._run_tool))]

    streamed = anyio.run(pieces)
    assert streamed[0] == "I have taken "
    assert max(len(piece.split()) for piece in streamed) == 3
    assert "".join(streamed) == "I have taken your message: one two three four five. Is there anything else?"


def test_notes_of_another_version_are_no_harm() -> None:
    for noted in (7, {}, {"booking": {"people": "x"}, "records": []}, {"booking": [1], "booking_before": None}):
        call = Call(memory={"front_desk": noted})  # type: ignore[dict-item]
        assert call.say("Hello there, Ann.").startswith("I have taken")


_WORDS = (
    "a table for four 4 twenty at seven 7:30 730 p.m. tomorrow on saturday under Ann my name is book when are you open thanks "
    "bye no yes never mind the third of may half past hundred and Mr. per cent % oh & , . ? don't it's"
)
_VOCABULARY = st.sampled_from(_WORDS.split(" "))
_TEXT = st.lists(_VOCABULARY, max_size=10).map(" ".join) | st.text(st.characters(exclude_categories=["C"]), max_size=40)


@given(st.lists(st.tuples(_TEXT, st.none() | st.integers(0, 30)), min_size=1, max_size=5))
def test_every_reply_holds_word_for_word_what_was_said(turns: list[tuple[str, int | None]]) -> None:
    call = Call()
    said: list[str] = []
    for text, heard_of_reply in turns:
        reply = call.say(text, heard_of_reply=heard_of_reply)
        if has_words(text):
            said.append(text)
            # The joined text: of "four" and "hundred" said over the reply the score makes one number.
            assert contains_words(reply, " ".join(said)), reply
            assert " ".join(text.split()).rstrip(" .,;:!?…") in reply
        if heard_of_reply is None:
            said.clear()


def _said(turn: Turn) -> str:
    async def collect() -> str:
        return "".join([piece async for piece in AGENT.reply(turn)])

    return anyio.run(collect)


def _turn(text: str, ended: list[int], **fields: object) -> Turn:
    async def no_tool(name: str, arguments: Mapping[str, Json]) -> Json:
        raise AssertionError

    return Turn(text, (), {}, no_tool, end_call=lambda: ended.append(1), **fields)  # type: ignore[arg-type]  # test shorthand


def test_it_hangs_up_after_a_goodbye_and_not_before() -> None:  # requirement U1
    ended: list[int] = []
    _said(_turn("Hello.", ended))
    assert not ended
    assert _said(_turn("Thank you, goodbye.", ended)).endswith("Goodbye.")
    assert ended == [1]


def test_a_silent_caller_is_asked_twice_and_then_let_go() -> None:  # requirement U1
    ended: list[int] = []
    said = [_said(_turn("", ended, cause=TurnCause.SILENCE, silences=count)) for count in (1, 2, 3)]
    assert said[0] == "Are you still there?"
    assert len(set(said)) == 3
    assert ended == [1]
