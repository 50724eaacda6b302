"""All calls of one runtime: joins a leg of the ledger to a conversation, and ends both together, once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, Protocol

import anyio
from structlog.typing import FilteringBoundLogger

from runtime.conversation.continuity import Continuity
from runtime.conversation.conversation import Conversation
from runtime.conversation.intent_memory import IntentMemory
from runtime.conversation.kept_audio import MissingAudio
from runtime.conversation.ports import (
    CallLink,
    ConversationLimits,
    Interruption,
    SessionIntents,
    TurnLatency,
)
from runtime.dialogue.agent import Agent
from runtime.dialogue.agent_events import SessionOpened
from runtime.dialogue.checkpoint_check import BadCheckpoint
from runtime.dialogue.session_settings import SessionSettings
from runtime.dialogue.turn_table import Floor
from runtime.engines.ports import Engines
from runtime.primitives.clock import NS_PER_MS, NS_PER_S, Clock
from runtime.primitives.ids import RuntimeId
from runtime.primitives.load_snapshot import RuntimeState
from runtime.primitives.reasons import EndReason
from runtime.session.admission import Admission, AdmissionRequest, Admitted, Refused
from runtime.session.guard import Saturation
from runtime.session.ledger import Ledger, Leg

__all__ = ["Calls", "CallsMeter"]

_EXPIRY_CHECK_S: Final = 0.5
_PASSED_ON: Final = (KeyboardInterrupt, SystemExit, asyncio.CancelledError)


class CallsMeter(Protocol):
    """Counts what happens over all calls; must not block or raise."""

    def session_started(self, startup_ms: float) -> None: ...

    def session_ended(self, reason: EndReason) -> None: ...

    def turn_measured(self, latency: TurnLatency) -> None: ...

    def interruption_measured(self, held_ms: float) -> None: ...

    def interruption_settled(self, outcome: Interruption) -> None: ...

    def commit_withdrawn(self, stage: Floor) -> None: ...

    def audio_was_late(self) -> None: ...

    def stale_dropped(self, events: int) -> None: ...

    def stale_sent(self) -> None: ...


class Calls:
    """The one owner of this process's conversations.

    Order for a caller: `reserve` (or a ticket from elsewhere), `attach` once its handshake is complete, then `serve`.
    Attribute `state`: the runtime's; the application moves it on.
    """

    def __init__(
        self,
        runtime_id: RuntimeId,
        ledger: Ledger,
        admission: Admission,
        agents: Mapping[str, Agent],
        default_agent: str,
        engines: Engines,
        limits: ConversationLimits,
        clock: Clock,
        meter: CallsMeter,
        saturation: Callable[[], Saturation],
        log: FilteringBoundLogger,
        intents: SessionIntents | None = None,
    ) -> None:
        self._intents = intents or IntentMemory()
        self.state = RuntimeState.STARTING
        self._runtime_id = runtime_id
        self._ledger = ledger
        self._admission = admission
        self._agents = agents
        self._default_agent = default_agent
        self._engines = engines
        self._limits = limits
        self._clock = clock
        self._meter = meter
        self._saturation = saturation
        self._log = log
        self._running: dict[Leg, Conversation] = {}
        self._changed = anyio.Event()

    @property
    def default_agent(self) -> str:
        return self._default_agent

    @property
    def agent_names(self) -> frozenset[str]:
        return frozenset(self._agents)

    @property
    def waiting_events(self) -> int:
        """Gauge: events over all calls that wait for a caller to read."""
        return sum(conversation.waiting_events for conversation in self._running.values())

    def reserve(self, request: AdmissionRequest) -> Admitted | Refused:
        """Decides on a place now. Raises DuplicateSession."""
        answer = self._admission.reserve(request, self.state, self._saturation(), self._clock.now_ns())
        if isinstance(answer, Refused):
            self._log.info("reservation refused", session_id=request.session_id, reason=answer.reason)
        return answer

    def attach(self, ticket: str) -> Leg:
        """The caller's handshake is complete. Raises UnknownTicket."""
        return self._ledger.attach(ticket, self._clock.now_ns())

    def abandon(self, leg: Leg) -> None:
        """An attached caller went away before `serve`."""
        self._ledger.end(leg, EndReason.NEVER_SPOKE)
        self._tell_change()

    async def serve(
        self,
        leg: Leg,
        settings: SessionSettings,
        link: CallLink,
        continuity: Continuity | None = None,
        patience_s: float = 0.0,
    ) -> EndReason | None:
        """Holds the conversation until the session ends, and answers why; None: it goes on elsewhere. The leg is out of the
        ledger when this returns.

        `patience_s`: how much longer than a slow caller a link may take that has bounds of its own."""
        log = self._log.bind(session_id=leg.session_id, epoch=leg.epoch)
        call = _Call(leg, self._ledger, self._clock, self._meter, self._intents, log)
        try:
            conversation = Conversation(
                leg.session_id,
                settings,
                self._agents[settings.agent],
                self._engines,
                replace(self._limits, slow_caller_s=self._limits.slow_caller_s + patience_s),
                self._clock,
                call,
                self._intents if continuity is None else continuity.intents,
                leg.epoch,
            )
            self._running[leg] = conversation
            if continuity is not None and continuity.adopted is not None:
                try:
                    await conversation.restore(continuity.adopted.checkpoint, continuity.adopted.audio)
                except (BadCheckpoint, MissingAudio) as error:
                    continuity.cannot_go_on(error)
                    call.ended(EndReason.NEVER_SPOKE)
                    return EndReason.NEVER_SPOKE
                greeting = None
            else:
                greeting = SessionOpened(leg.session_id, leg.epoch, self._runtime_id, settings)
            async with anyio.create_task_group() as group:
                if continuity is not None:
                    group.start_soon(continuity.attend, conversation)
                reason = await conversation.run(link, greeting)
                group.cancel_scope.cancel()
            return reason
        except (Exception, BaseExceptionGroup) as fault:
            # The session boundary: a fault of ours ends this call, loudly, and no other, whatever an author's code raises.
            if isinstance(fault, BaseExceptionGroup) and fault.subgroup(_PASSED_ON) is not None:
                raise
            log.exception("conversation failed")
            call.ended(EndReason.HANDLER_ERROR)
            return EndReason.HANDLER_ERROR
        finally:
            self._running.pop(leg, None)
            self._tell_change()

    async def expire_leases(self) -> None:
        """Frees the places of callers that never came or never spoke; runs as long as the process."""
        while True:
            await anyio.sleep(_EXPIRY_CHECK_S)
            for leg in self._ledger.expire(self._clock.now_ns()):
                self._log.info("place expired", session_id=leg.session_id)
            self._tell_change()

    def end_all(self, reason: EndReason) -> None:
        """Ends every conversation now."""
        for conversation in list(self._running.values()):
            conversation.stop(reason)

    async def wait_until_empty(self) -> None:
        """Returns when no leg is left, whichever ends last, and nobody is on the way here with a ticket."""
        while self._ledger.reserved or self._ledger.active or self._running:
            await self._wait_for_change()

    async def wait_until_ended(self) -> None:
        """Returns when no conversation runs; places that are held do not count."""
        while self._running:
            await self._wait_for_change()

    async def _wait_for_change(self) -> None:
        await self._changed.wait()

    def _tell_change(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


class _Call:
    """Hears one conversation and keeps its leg."""

    def __init__(
        self, leg: Leg, ledger: Ledger, clock: Clock, meter: CallsMeter, intents: SessionIntents, log: FilteringBoundLogger
    ) -> None:
        self._leg = leg
        self._ledger = ledger
        self._clock = clock
        self._meter = meter
        self._intents = intents
        self._log = log

    def started(self) -> bool:
        now_ns = self._clock.now_ns()
        if not self._ledger.start(self._leg, now_ns):
            return False
        if self._leg.is_adoption:
            self._log.info("session moved in")
        else:
            self._meter.session_started((now_ns - self._leg.reserved_at_ns) / NS_PER_MS)
            self._log.info("session started")
        return True

    def ended(self, reason: EndReason) -> None:
        was_started = self._leg.started_at_ns > 0
        if not self._ledger.end(self._leg, reason):
            return
        self._intents.forget(self._leg.session_id)
        if was_started:
            length_s = (self._clock.now_ns() - self._leg.started_at_ns) / NS_PER_S
            self._meter.session_ended(reason)
            self._log.info("session ended", reason=reason, length_s=round(length_s, 3))
        else:
            self._log.info("caller never spoke", reason=reason)

    def moved_out(self) -> None:
        if self._ledger.move_out(self._leg):
            self._log.info("session moved out")

    def speaking(self, is_speaking: bool) -> None:
        self._leg.is_speaking = is_speaking

    def turn_measured(self, latency: TurnLatency) -> None:
        self._meter.turn_measured(latency)

    def audio_was_late(self) -> None:
        self._meter.audio_was_late()

    def stale_dropped(self, events: int) -> None:
        self._meter.stale_dropped(events)

    def stale_sent(self) -> None:
        self._meter.stale_sent()
        self._log.error("a frame of a dead reply was sent")

    def interruption_measured(self, held_ms: float) -> None:
        self._meter.interruption_measured(held_ms)

    def interruption_settled(self, outcome: Interruption) -> None:
        self._meter.interruption_settled(outcome)

    def commit_withdrawn(self, stage: Floor) -> None:
        self._meter.commit_withdrawn(stage)

    def agent_failed(self, error: BaseException) -> None:
        self._log.error("agent failed", error=type(error).__name__)  # its text may hold what the caller said
