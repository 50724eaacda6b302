"""A call behind a relay: its checkpoints and its tools' intents go there, and the relay's orders come here (continuity.proto)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, cast

import anyio
from anyio.abc import TaskGroup
from starlette.websockets import WebSocket
from structlog.typing import FilteringBoundLogger

from protos.switchboard.v1 import continuity_pb2 as pb
from runtime.codec.checkpoint_message import BadCheckpoint, KeptSession, decode_session, encode_session
from runtime.conversation.continuity import Adopted
from runtime.conversation.conversation import Conversation
from runtime.conversation.ports import IntentStore, LinkClosed, Message
from runtime.dialogue.checkpoint import Checkpoint
from runtime.dialogue.session_settings import SessionSettings
from runtime.primitives.reasons import EndReason
from runtime.session.ledger import Leg
from runtime.transport.asides import ASIDES_KEY, Asides
from runtime.transport.relay_intents import RelayIntents
from runtime.transport.websocket_link import WebSocketLink, WireMessage

__all__ = ["KeptCall", "adopted", "is_kept", "kept_call"]

_RESTORE_S: Final = 5.0
"""How long the relay may take for the state and the messages that belong to it."""
_AUDIBLE_S: Final = 1.5
"""How long a planned move waits for the reply's audio, before it goes on without."""


class KeptCall:
    """One leg of a session that a relay keeps. `adopted`, `following`: what it goes on from, where it does not begin here."""

    def __init__(
        self,
        asides: Asides,
        link: WebSocketLink,
        log: FilteringBoundLogger,
        going_on: Adopted | None = None,
        following: Sequence[WireMessage] = (),
    ) -> None:
        self._adopted = going_on
        self.link = link
        self._intents = RelayIntents(asides)
        self._asides = asides
        self._log = log
        self._following = following
        link.keeper = self

    @property
    def adopted(self) -> Adopted | None:
        return self._adopted

    @property
    def intents(self) -> IntentStore:
        return self._intents

    def cannot_go_on(self, error: Exception) -> None:
        """As the port."""
        _refuse(self._asides, self._log, str(error))

    async def attend(self, conversation: Conversation) -> None:
        async with anyio.create_task_group() as group:
            if self.adopted is not None:
                group.start_soon(self._tell_when_audible, conversation)
            while True:
                self._obey(await self._asides.take(), conversation, group)

    def keep(self, checkpoint: Checkpoint, following: Sequence[Message], *, is_quiet: bool, answers: int) -> None:
        """As the port."""
        told = tuple(cast(Sequence[WireMessage], following))
        try:
            state = encode_session(KeptSession(checkpoint, self.link.state, told))
        except BadCheckpoint as error:
            # The relay goes on with the last one it has, and a move that waits for this one is given up there.
            self._log.warning("session not kept", problem=error.problem)
            return
        replay_from = min(checkpoint.audio_from, checkpoint.applied + 1)
        kept = pb.Checkpoint(state=state, applied=checkpoint.applied, replay_from=replay_from, is_quiet=is_quiet, answers=answers)
        self._asides.say(pb.RuntimeAside(checkpoint=kept))

    def over(self, reason: EndReason) -> None:
        """As the port."""
        self._asides.over(reason)

    def _obey(self, aside: pb.RelayAside, conversation: Conversation, group: TaskGroup) -> None:
        match aside.WhichOneof("said"):
            case "go_on" if self.adopted is not None:
                conversation.go_on(self._following, aside.go_on.told, aside.go_on.silent_ms)
                self.link.release()
            case "hand_over":
                self.link.hold()
                group.start_soon(conversation.hand_over, aside.hand_over.number)
            case "stay":
                conversation.stay()
                self.link.release()
            case "moved_out":
                conversation.move_out()
            case "intent_answer":
                self._intents.answered(aside.intent_answer)

    async def _tell_when_audible(self, conversation: Conversation) -> None:
        with anyio.move_on_after(_AUDIBLE_S):
            await conversation.wait_until_audible()
        self._asides.say(pb.RuntimeAside(restored=pb.Restored()))


def _refuse(asides: Asides, log: FilteringBoundLogger, problem: str) -> None:
    log.warning("session not restored", problem=problem)
    asides.say(pb.RuntimeAside(not_restored=pb.NotRestored(problem=problem)))


def is_kept(websocket: WebSocket, leg: Leg) -> bool:
    """A relay holds this caller's connection, and goes on with the call when we are gone."""
    return leg.is_relayed and websocket.scope["state"].get(ASIDES_KEY) is not None


def kept_call(websocket: WebSocket, leg: Leg, link: WebSocketLink, log: FilteringBoundLogger) -> KeptCall | None:
    """None: no relay stands before this call, or one that does not keep it."""
    asides: Asides | None = websocket.scope["state"].get(ASIDES_KEY)
    if asides is None or not leg.is_relayed:
        return None
    return KeptCall(asides, link, log.bind(session_id=leg.session_id, epoch=leg.epoch))


async def adopted(
    websocket: WebSocket, leg: Leg, again: Callable[[KeptSession], WebSocketLink], log: FilteringBoundLogger
) -> tuple[KeptCall, SessionSettings] | None:
    """Takes a session over: its state, and the caller's messages that it needs. None: it cannot go on here; the relay was told.

    `again` makes the wire anew from what was kept of it; raises BadCheckpoint.
    """
    log = log.bind(session_id=leg.session_id, epoch=leg.epoch)
    asides: Asides | None = websocket.scope["state"].get(ASIDES_KEY)
    if asides is None or not leg.is_relayed:
        log.warning("session not restored", problem="the place is for a session that moves, and no relay brings its state")
        return None
    try:
        with anyio.fail_after(_RESTORE_S):
            restore = (await asides.take()).restore
            kept = decode_session(restore.state)
            link = again(kept)
            link.hold()
            link.applied = link.receiving = restore.replay_from - 1
            audio = await link.read_again(upto=kept.checkpoint.applied)
    except (BadCheckpoint, TimeoutError, LinkClosed) as error:
        problem = error.problem if isinstance(error, BadCheckpoint) else "the state did not come in time"
        _refuse(asides, log, problem)
        return None
    call = KeptCall(asides, link, log, Adopted(kept.checkpoint, audio), kept.following)
    return call, kept.checkpoint.settings
