"""The front desk as an agent: understands by rules, acts by tools, answers by templates."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Final

from runtime.dialogue.agent import Json, Tool, ToolFailure, Turn, TurnCause
from runtime.engines.front_desk.booking import Booking, wants_table
from runtime.engines.front_desk.courtesy import courtesy_reply
from runtime.engines.front_desk.notes import Notes
from runtime.engines.front_desk.opening_hours import asks_for_hours, hours_on, hours_sentence, mentioned_day
from runtime.engines.front_desk.plain_words import plain
from runtime.engines.front_desk.tools import TOOLS
from runtime.engines.front_desk.utterance import Utterance, has_words, utterance_of

__all__ = ["FrontDesk"]

_WORDS_A_PIECE: Final = 3
_GREETING: Final = "Good day, this is the front desk. How can I help you?"
_ANYTHING_ELSE: Final = "Is there anything else?"
_GIVES_UP: Final = re.compile(r"\b(?:never mind|forget it|forget about it|cancel|no booking)\b")
_MOST_SILENCES: Final = 3
_MOST_MISSES: Final = 2
"""Turns in a row that do not help a booking; then the caller wants something else, and it is taken as a message."""


class FrontDesk:
    """Opening hours, table bookings, and everything else as a message.

    Every reply to words holds those words, all and in order, after "You asked", "I heard" and the like. A caller who talks over a
    reply has not finished: the texts are joined, understood again as one, and what was recorded before is replaced.
    It hangs up after a goodbye, and on a caller who says nothing to three questions.
    Holds no state of a call; any number of calls may use it.
    """

    @property
    def name(self) -> str:
        return "front-desk"

    @property
    def tools(self) -> Sequence[Tool]:
        return TOOLS

    async def reply(self, turn: Turn) -> AsyncIterator[str]:
        """Streams the answer a few words at a time. All acting is done and noted before the first of them."""
        answer = await self._answer(turn)
        words = answer.split(" ")
        for start in range(0, len(words), _WORDS_A_PIECE):
            group = " ".join(words[start : start + _WORDS_A_PIECE])
            yield group if start + _WORDS_A_PIECE >= len(words) else group + " "

    async def _answer(self, turn: Turn) -> str:
        if turn.cause is TurnCause.SILENCE:
            return _asked_again(turn)
        utterance = utterance_of(turn)
        if not has_words(turn.text):
            if turn.cause is TurnCause.TYPED and not turn.history:
                return _GREETING
            if utterance.parts:
                return f"I am sorry, I did not catch that. So far I have: {_closed(utterance.text)} Please go on."
            return "I am sorry, I did not understand that. Could you say it again, please?"
        notes = Notes.read(turn.memory)
        notes.begin(is_continued=utterance.is_continued)
        notes.write(turn.memory)
        answer = await self._act(turn, utterance, notes)
        notes.write(turn.memory)
        return answer

    async def _act(self, turn: Turn, utterance: Utterance, notes: Notes) -> str:
        said = plain(utterance.text)
        if asks_for_hours(said):
            return await self._tell_hours(turn, utterance, notes)
        if courtesy := courtesy_reply(said):
            booking, notes.booking = notes.booking, None if courtesy.endswith("Goodbye.") else notes.booking
            open_question = f"{notes.booking.question}" if notes.booking else courtesy
            without_table = "Then I book no table. " if booking and not notes.booking else ""
            if open_question.endswith("Goodbye."):
                turn.end_call()
            return f"You said: {_closed(utterance.text)} {without_table}{open_question}"
        if notes.booking or wants_table(said):
            if notes.booking and _GIVES_UP.search(said):
                notes.booking = None
                return f"I heard: {_closed(utterance.text)} All right, I book no table. {_ANYTHING_ELSE}"
            booking = (notes.booking or Booking()).hear_all(utterance.parts)
            if not notes.booking or booking.misses < _MOST_MISSES:
                return await self._go_on_booking(turn, utterance, notes, booking)
            notes.booking = None
        return await self._take_message(turn, utterance, notes)

    async def _tell_hours(self, turn: Turn, utterance: Utterance, notes: Notes) -> str:
        day = mentioned_day(plain(utterance.text))
        known = day.removeprefix("next ") if day and hours_on(day) else None
        await turn.call_tool("opening_hours", {"day": known} if known else {})
        question = f" {notes.booking.question}" if notes.booking else ""
        return f"You asked: {_closed(utterance.text, '?')} {hours_sentence(day)}{question}"

    async def _go_on_booking(self, turn: Turn, utterance: Utterance, notes: Notes, booking: Booking) -> str:
        heard = f"I heard: {_closed(utterance.text)}"
        if booking.missing:
            notes.booking = booking if notes.booking else replace(booking, misses=0)  # to want a table is no miss
            problem = f" {booking.problem}" if booking.problem else ""
            return f"{heard}{problem} {booking.question}"
        if failure := await _record(turn, notes, "book_table", booking.arguments()):
            notes.booking = booking
            return f"{heard} {failure}"
        notes.booking = None
        return f"{heard} {booking.sentence()} {_ANYTHING_ELSE}"

    async def _take_message(self, turn: Turn, utterance: Utterance, notes: Notes) -> str:
        if failure := await _record(turn, notes, "take_message", {"text": utterance.text}):
            return f"I heard: {_closed(utterance.text)} {failure}"
        return f"I have taken your message: {_closed(utterance.text)} {_ANYTHING_ELSE}"


def _asked_again(turn: Turn) -> str:
    """What to say to somebody who says nothing: twice a question, then goodbye."""
    if turn.silences < _MOST_SILENCES:
        return "Are you still there?" if turn.silences == 1 else "I cannot hear you. Please say something, or call again later."
    turn.end_call()
    return "I still hear nothing, so I hang up now. Goodbye."


async def _record(turn: Turn, notes: Notes, tool: str, arguments: dict[str, Json]) -> str:
    """Runs a tool that records something; answers with what to say where it failed."""
    replaced = notes.records.get(tool)
    try:
        result = await turn.call_tool(tool, {**arguments, "replaces": replaced} if replaced else arguments)
    except ToolFailure as failure:
        if failure.outcome_is_unknown:
            return "I am not sure that it was written down. Please call again to check."
        return "I am sorry, I could not write that down. Please try again later."
    if isinstance(result, dict):
        notes.records[tool] = str(result.get("reference", ""))
    return ""


def _closed(text: str, mark: str = ".") -> str:
    """`text` as a sentence: with one mark at its end, its own question mark if it has one."""
    bare = text.rstrip(" .,;:!?…")
    return bare + ("?" if text.rstrip().endswith("?") else mark)
