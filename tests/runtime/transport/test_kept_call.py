"""A place for a session that moves takes that session's state and no other, and says why where it cannot."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio
import pytest

from protos.switchboard.v1 import continuity_pb2 as pb
from runtime.codec.checkpoint_message import decode_session, encode_session
from runtime.dialogue.turn_table import Floor
from runtime.primitives.ids import Epoch, SessionId
from runtime.session.admission import AdmissionRequest, Admitted
from runtime.wire.asides import ASIDE_EXTENSION, build_aside
from runtime.wire.headers import TICKET_HEADER
from tests.support.local_runtime import LocalRuntime, local_runtime, until
from tests.support.raw_websocket import RawCaller, raw_caller

pytestmark = pytest.mark.anyio

_KEY = bytes(4)


class _Relay:
    """One leg as a relay has it."""

    def __init__(self, caller: RawCaller) -> None:
        self._caller = caller
        self._at = 0
        self.messages: list[bytes] = []

    async def say(self, **said: object) -> None:
        await self._caller.stream.send(build_aside(pb.RelayAside(**said).SerializeToString(), _KEY))  # type: ignore[arg-type]

    async def pass_on(self, **event: object) -> None:
        await self._caller.say(**event)

    async def take(self, kind: str) -> pb.RuntimeAside:
        """The next aside of that kind; messages before it are kept."""
        with anyio.fail_after(20):
            while True:
                first, payload = await self._frame()
                if first != 0x92:
                    self.messages.append(payload)
                    continue
                aside = pb.RuntimeAside.FromString(payload)
                if aside.WhichOneof("said") == kind:
                    return aside

    async def message(self) -> dict[str, object]:
        """The next message; asides before it are passed over."""
        with anyio.fail_after(20):
            while True:
                first, payload = await self._frame()
                if first == 0x81:
                    message: dict[str, object] = json.loads(payload)
                    return message

    async def _frame(self) -> tuple[int, bytes]:
        first, length = await self._bytes(2)
        if length > 125:
            length = int.from_bytes(await self._bytes(2 if length == 126 else 8), "big")
        return first, await self._bytes(length)

    async def _bytes(self, count: int) -> bytes:
        while len(self._caller.read) < self._at + count:
            self._caller.read += await self._caller.stream.receive()
        self._at += count
        return self._caller.read[self._at - count : self._at]


@asynccontextmanager
async def _leg(local: LocalRuntime, epoch: int, session_id: str = "s") -> AsyncIterator[_Relay]:
    request = AdmissionRequest(
        SessionId(session_id), Epoch(epoch), 10_000_000_000, is_adoption=epoch > 1, is_relayed=True, agent="desk"
    )
    answer = local.parts.calls.reserve(request)
    assert isinstance(answer, Admitted)
    headers = f"Sec-WebSocket-Extensions: {ASIDE_EXTENSION}\r\n{TICKET_HEADER}: {answer.leg.ticket}\r\n"
    async with raw_caller(local.url, headers=headers) as caller:
        yield _Relay(caller)


async def _state(local: LocalRuntime) -> pb.Checkpoint:
    async with _leg(local, 1) as relay:
        kept = (await relay.take("checkpoint")).checkpoint
        await relay.pass_on(type="input_audio_buffer.clear")
        kept = (await relay.take("checkpoint")).checkpoint
    await local.until_empty()
    return kept


async def test_a_session_goes_on_where_it_was_kept() -> None:  # requirement C3
    async with local_runtime() as local:
        kept = await _state(local)
        assert (kept.applied, kept.replay_from) == (1, 2)
        async with _leg(local, 2) as relay:
            await relay.say(restore=pb.Restore(state=kept.state, applied=1, replay_from=2))
            await relay.take("restored")
            await relay.pass_on(type="input_audio_buffer.commit")
            await relay.say(go_on=pb.GoOn(told=0))
            assert (await relay.message())["type"] == "input_audio_buffer.cleared"
            assert (await relay.message())["type"] == "error"  # nothing to commit
            assert local.ledger.totals.moved_in == 1
            await relay.say(moved_out=pb.MovedOut())
            await until(lambda: local.ledger.totals.moved_out == 1)


async def test_nothing_is_said_before_it_may_go_on() -> None:  # requirement C2
    async with local_runtime() as local:
        kept = await _state(local)
        async with _leg(local, 2) as relay:
            await relay.say(restore=pb.Restore(state=kept.state, applied=1, replay_from=2))
            await relay.take("restored")
            assert not relay.messages
            await relay.say(go_on=pb.GoOn(told=1))  # which was the one that the state holds
            await relay.pass_on(type="input_audio_buffer.commit")
            assert (await relay.message())["type"] == "error"


async def test_a_session_that_was_given_up_before_it_went_on_never_came() -> None:  # requirement C2, S2
    """Its caller hung up, or the move failed: the session ended, or goes on, where it was."""
    async with local_runtime() as local:
        kept = await _state(local)
        ended = dict(local.ended)
        async with _leg(local, 2) as relay:
            await relay.say(restore=pb.Restore(state=kept.state, applied=1, replay_from=2))
            await relay.take("restored")
            assert (local.ledger.active, local.ledger.totals.moved_in) == (0, 0)
        await local.until_empty()
        assert dict(local.ended) == ended
        assert local.ledger.totals.moved_in == 0


async def test_a_hand_over_is_answered_and_taken_back() -> None:  # requirement C2
    async with local_runtime() as local, _leg(local, 1) as relay:
        await relay.take("checkpoint")
        await relay.say(hand_over=pb.HandOver(number=9))
        while (await relay.take("checkpoint")).checkpoint.answers != 9:
            continue
        await relay.pass_on(type="input_audio_buffer.clear")
        await relay.say(stay=pb.Stay())
        assert (await relay.message())["type"] == "input_audio_buffer.cleared"


@pytest.mark.parametrize("case", ["damaged", "another's", "contradictory", "nothing"])
async def test_a_session_that_cannot_go_on_says_why_and_frees_its_place(case: str) -> None:  # requirement C3, S3
    async with local_runtime() as local:
        kept = await _state(local)
        session = decode_session(kept.state)
        odd = replace(session.checkpoint, turns=replace(session.checkpoint.turns, floor=Floor.SPEAKING))  # and no reply
        contradictory = encode_session(replace(session, checkpoint=odd))
        states = {"damaged": kept.state[:-1], "another's": kept.state, "contradictory": contradictory, "nothing": b""}
        async with _leg(local, 2, "other" if case == "another's" else "s") as relay:
            await relay.say(restore=pb.Restore(state=states[case], applied=1, replay_from=2))
            problem = (await relay.take("not_restored")).not_restored.problem
        words = {"damaged": "digest", "another's": "another session", "contradictory": "floor", "nothing": "digest"}
        assert words[case] in problem
        await local.until_empty()
        assert local.ledger.totals.moved_in == 0


async def test_the_end_is_told_before_the_close() -> None:  # requirement C3
    async with local_runtime(maximum_s=0.3) as local, _leg(local, 1) as relay:
        await relay.pass_on(type="input_audio_buffer.clear")
        assert (await relay.take("over")).over.reason == "maximum_length"
