"""Sessions whose callers may lose their connection and come back: who owns them, and whose tokens open them. (requirement C4)

A token is sealed by this life of the runtime, names session and tenant, and is good until its successor is used: a caller whose
new connection broke before it heard of the next token still has one. Sessions outlive the handler of any connection, so they run
in a task group of their own.
"""

from __future__ import annotations

import math
import secrets
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

import anyio
from anyio.abc import TaskGroup
from structlog.typing import FilteringBoundLogger

from protos.switchboard.v1 import voice_pb2 as pb
from runtime.codec.converse_config import BrokenContract
from runtime.conversation.calls import Calls
from runtime.dialogue.session_settings import SessionSettings
from runtime.primitives.errors import Fault, VoiceError
from runtime.primitives.ids import SessionId
from runtime.primitives.reasons import EndReason
from runtime.session.ledger import Leg
from runtime.transport.resumable_link import ResumableLink, ResumeRule, Wire
from runtime.transport.ticket_check import Presented
from runtime.wire.signed_tickets import TicketClaims, TicketKey, TicketRefused, open_ticket, seal_ticket

__all__ = ["Held", "ResumeDesk", "ResumeFault", "ResumeMeter", "ResumeRefused"]

_KEY_ID: Final = "resume"


class ResumeFault(StrEnum):
    """Why a token opens no session; stable codes."""

    FORGED = "forged_resume_token"
    """Not one of this runtime's present life, or changed."""
    OVER = "session_over"
    USED = "used_resume_token"
    WRONG_SESSION = "wrong_session"
    WRONG_TENANT = "wrong_tenant"


_TEXTS: Final = {
    ResumeFault.FORGED: "the resume token was not made by this runtime since it was started, or was changed on the way",
    ResumeFault.OVER: "the session is over: it was ended, or nobody came back to it in time; begin a new one",
    ResumeFault.USED: "a newer resume token of the session was used",
    ResumeFault.WRONG_SESSION: "the connection names another session than its resume token",
    ResumeFault.WRONG_TENANT: "the connection names another tenant than its resume token",
}


class ResumeRefused(VoiceError):
    fault = Fault.PEER

    def __init__(self, why: ResumeFault) -> None:
        self.code = why.value
        self.why = why
        super().__init__(_TEXTS[why])


class ResumeMeter(Protocol):
    """Counts; must not block or raise."""

    def caller_lost(self) -> None: ...

    def caller_back(self) -> None: ...


@dataclass(slots=True, eq=False)
class Held:
    """One session. `secrets_`: what a token must name, the newest last; `shown`: what the one named that was shown last."""

    leg: Leg
    link: ResumableLink
    secrets_: list[str] = field(default_factory=list, repr=False)
    shown: str = field(default="", repr=False)


class ResumeDesk:
    """Order: `run` in a task group of the process; `begin` and `take_up` from the handlers of connections.

    Args:
        most_away: sessions of one tenant that may wait at a time; one more ends as it would without resumption.
    """

    def __init__(
        self,
        calls: Calls,
        runtime_id: str,
        incarnation: int,
        rule: ResumeRule,
        most_away: int,
        meter: ResumeMeter,
        log: FilteringBoundLogger,
        new_secret: Callable[[], str] = lambda: secrets.token_urlsafe(16),
    ) -> None:
        self._calls = calls
        self._life = (runtime_id, incarnation)
        self._rule = rule
        self._most_away = most_away
        self._meter = meter
        self._log = log
        self._new_secret = new_secret
        self._key = TicketKey(_KEY_ID, secrets.token_bytes(32))
        self._held: dict[SessionId, Held] = {}
        self._group: TaskGroup | None = None

    @property
    def is_open(self) -> bool:
        """Sessions are offered to be resumed."""
        return self._rule.grace_s > 0 and self._group is not None

    @property
    def away(self) -> Counter[str]:
        """Gauge: sessions that wait for their callers, by tenant."""
        return Counter(held.leg.tenant for held in self._held.values() if held.link.is_away and held.leg.end_reason is None)

    @property
    def sessions(self) -> int:
        """Gauge: sessions here, with their callers or waiting for them."""
        return len(self._held)

    async def run(self) -> None:
        """Owns the sessions; ends only by cancellation, after they were ended."""
        async with anyio.create_task_group() as self._group:
            await anyio.sleep_forever()

    async def begin(self, leg: Leg, settings: SessionSettings, wire: Wire) -> ResumableLink:
        """A new session, carried by its first connection until that is gone; `over` of the answer says whether the session is."""
        assert self._group is not None, "`run` is running"
        link = ResumableLink(
            settings, self._rule, lambda: self._token(held), lambda: self._may_wait(held), lambda: self._confirmed(held)
        )
        held = Held(leg, link)
        self._held[leg.session_id] = held
        self._group.start_soon(self._serve, held, settings)
        await link.carry(wire)
        return link

    def check(self, presented: Presented) -> Held:
        """The session that a token (as `ticket`) opens. Raises ResumeRefused; then nothing is changed."""
        try:
            claims = open_ticket(presented.ticket, {_KEY_ID: self._key})
        except TicketRefused:
            raise ResumeRefused(ResumeFault.FORGED) from None
        if presented.session_id not in ("", claims.session_id):
            raise ResumeRefused(ResumeFault.WRONG_SESSION)
        if presented.tenant not in ("", claims.tenant):
            raise ResumeRefused(ResumeFault.WRONG_TENANT)
        held = self._held.get(SessionId(claims.session_id))
        if held is None or held.leg.end_reason is not None or held.leg.epoch != claims.epoch:
            raise ResumeRefused(ResumeFault.OVER)
        if claims.place not in held.secrets_:
            raise ResumeRefused(ResumeFault.USED)
        held.shown = claims.place
        return held

    async def take_up(self, held: Held, wire: Wire, received: int) -> ResumableLink:
        """Goes on over a new connection, as `begin`. Raises BrokenContract where `received` cannot be."""
        if received > held.link.said:
            raise BrokenContract(f"received is {received}; allowed: at most {held.link.said}, the last message")
        if held.link.is_away:
            self._meter.caller_back()
        self._log.info("caller is back", session_id=held.leg.session_id)
        resumed = pb.SessionResumed(resume_token=self._token(held), resume_within_ms=round(self._rule.grace_s * 1000))
        await held.link.carry(wire, received, pb.ConverseResponse(session_resumed=resumed))
        return held.link

    async def _serve(self, held: Held, settings: SessionSettings) -> None:
        reason: EndReason | None = EndReason.HANDLER_ERROR
        try:
            reason = await self._calls.serve(held.leg, settings, held.link, patience_s=math.inf)
        finally:
            self._held.pop(held.leg.session_id, None)
            held.link.end(reason or EndReason.HANDLER_ERROR)

    def _token(self, held: Held) -> str:
        """The next one. At most two are good: this, and that which was shown last, since who showed it may never hear of this."""
        secret = self._new_secret()
        held.secrets_ = [held.shown, secret] if held.shown in held.secrets_ else [*held.secrets_[-1:], secret]
        runtime_id, incarnation = self._life
        leg = held.leg
        return seal_ticket(TicketClaims(secret, leg.session_id, leg.epoch, runtime_id, incarnation, 0, leg.tenant), self._key)

    def _confirmed(self, held: Held) -> None:
        """The caller has heard of the newest token."""
        del held.secrets_[:-1]

    def _may_wait(self, held: Held) -> bool:
        if held.leg.end_reason is not None:
            return False  # the end was decided, and its caller has hung up on hearing of it
        away = self.away[held.leg.tenant]
        may_wait = away <= self._most_away
        self._meter.caller_lost()
        self._log.info("caller lost", session_id=held.leg.session_id, waits_s=self._rule.grace_s if may_wait else 0.0)
        return may_wait
