"""One caller: talks, pauses, waits for its answer, interrupts it, knocks something over; and what came of each turn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import anyio
import numpy as np
from numpy.typing import NDArray

from clients.realtime import RATE_HZ, Call
from perf.demo.script import Recording
from perf.voice.listener import HeardReply, Listener
from perf.voice.microphone import Microphone, voiced_span
from perf.voice.plan import PlannedTurn, TurnPlans

__all__ = ["Caller", "SpokenTurn"]

_ANSWER_WITHIN_S: Final = 15.0
_NOISE_S: Final = 0.12
_NOISE_PEAK: Final = 6_000
_BREATH: Final = RATE_HZ // 10
"""Kept in front of a recording's first word."""
_STOPS_WITHIN_S: Final = 1.5
"""An agent that has not stopped so long after it was interrupted has not noticed."""


@dataclass(slots=True)
class SpokenTurn:
    """What came of one turn. Times are milliseconds after its last voiced sample was sent; None: it did not come.

    Attributes:
        interruption_ms: where it interrupted the agent: first voiced sample sent to the agent's last frame; None: it did not, or
            all of the agent's audio had come before.
        commits_early: how often the turn was taken to be over while it was not; `withdrawn` of them were taken back.
    """

    reference: str = ""
    transcript: str = ""
    is_answered: bool = False
    decided_ms: float | None = None
    transcript_ms: float | None = None
    first_text_ms: float | None = None
    first_audio_ms: float | None = None
    is_interruption: bool = False
    interruption_ms: float | None = None
    was_noticed: bool = True
    commits_early: int = 0
    withdrawn: int = 0
    noises: int = 0
    stopped_by_noise: int = 0


@dataclass(slots=True)
class Caller:
    """Runs one call until `until_s`; the turn that has begun by then is finished."""

    call: Call
    recordings: list[Recording]
    plans: TurnPlans
    until_s: float
    listener: Listener = field(default_factory=Listener)
    turns: list[SpokenTurn] = field(default_factory=list)
    _news: anyio.Event = field(default_factory=anyio.Event)
    _microphone: Microphone = field(init=False)

    async def run(self) -> None:
        """Raises CallFailed where the call breaks."""
        self._microphone = Microphone(self.call)
        async with anyio.create_task_group() as group:
            group.start_soon(self._microphone.run)
            group.start_soon(self._listen)
            while anyio.current_time() < self.until_s:
                await self._take_turn(self.plans.next())
            group.cancel_scope.cancel()

    async def _listen(self) -> None:
        async for event in self.call.events():
            self.listener.hear(event, anyio.current_time())
            self._news.set()
            self._news = anyio.Event()

    async def _take_turn(self, plan: PlannedTurn) -> None:
        turn = SpokenTurn(reference=" ".join(self.recordings[index].reference for index in plan.recordings))
        self.turns.append(turn)
        samples = self._joined(plan)
        first, last = voiced_span(samples)
        items_before, over = len(self.listener.items), self.listener.running
        starts_s = self._microphone.say(samples)
        begins_s, ends_s = starts_s + first / RATE_HZ, starts_s + last / RATE_HZ
        if over is not None and over.plays_until_s > begins_s:
            await self._interrupt(turn, over, begins_s)
        await anyio.sleep_until(ends_s)
        answer = await self._answer(ends_s)
        items = self.listener.items[items_before:]
        early = [item for item in items if item.committed_s < ends_s]
        turn.commits_early = len(early)
        turn.withdrawn = sum(item.is_withdrawn for item in early)
        turn.transcript = " ".join(item.text for item in items if item.text and not item.is_withdrawn)
        if answer is None:
            return
        turn.is_answered = True
        kept = [item for item in items if not item.is_withdrawn]
        turn.decided_ms = _after(kept[-1].committed_s if kept else None, ends_s)
        turn.transcript_ms = _after(kept[-1].transcribed_s if kept else None, ends_s)
        turn.first_text_ms = _after(answer.first_text_s, ends_s)
        turn.first_audio_ms = _after(answer.first_audio_s, ends_s)
        await self._react(turn, plan, answer)

    async def _interrupt(self, turn: SpokenTurn, over: HeardReply, begins_s: float) -> None:
        turn.is_interruption = True
        await anyio.sleep_until(begins_s)
        with anyio.move_on_after(_STOPS_WITHIN_S):
            while not over.status:
                await self._news.wait()
        turn.was_noticed = bool(over.status)
        if over.status == "cancelled" and over.last_audio_s is not None and over.last_audio_s > begins_s:
            turn.interruption_ms = (over.last_audio_s - begins_s) * 1_000

    async def _answer(self, ends_s: float) -> HeardReply | None:
        with anyio.move_on_after(_ANSWER_WITHIN_S):
            while (answer := self.listener.answer_to(ends_s)) is None:
                await self._news.wait()
            return answer
        return None

    async def _react(self, turn: SpokenTurn, plan: PlannedTurn, answer: HeardReply) -> None:
        reaction = plan.reaction
        if reaction.interrupts or reaction.makes_noise:
            assert answer.first_audio_s is not None, "an answer has begun"
            await anyio.sleep_until(answer.first_audio_s + reaction.after_s)
            if answer.status or reaction.interrupts:
                return  # it is over already, or the next turn begins now
            turn.noises += 1
            self._microphone.say(_burst())
        with anyio.move_on_after(_ANSWER_WITHIN_S * 2):
            while not answer.status:
                await self._news.wait()
            await anyio.sleep_until(answer.plays_until_s)
        turn.stopped_by_noise += turn.noises and answer.status == "cancelled"
        await anyio.sleep(reaction.gap_s)

    def _joined(self, plan: PlannedTurn) -> NDArray[np.int16]:
        pieces: list[NDArray[np.int16]] = []
        for index, pause_s in zip(plan.recordings, (*plan.pauses_s, 0.0), strict=True):
            samples = self.recordings[index].samples
            first, last = voiced_span(samples)
            # The recordings' own silence is cut, so that the pause is the planned one.
            pieces += [samples[max(0, first - _BREATH) : last], np.zeros(int(pause_s * RATE_HZ), np.int16)]
        return np.concatenate(pieces)


def _burst() -> NDArray[np.int16]:
    """Something that falls: noise that dies away. The same each time, from a linear congruential sequence."""
    count = int(_NOISE_S * RATE_HZ)
    values = np.empty(count, np.int64)
    state = 12_345
    for at in range(count):
        state = (1_103_515_245 * state + 12_345) % 2**31
        values[at] = state >> 15
    noise = values / 2**15 - 1.0
    fall: NDArray[np.int16] = (noise * _NOISE_PEAK * np.exp(-np.arange(count) / (count / 4))).astype(np.int16)
    return fall


def _after(at_s: float | None, since_s: float) -> float | None:
    return None if at_s is None else (at_s - since_s) * 1_000
