"""The embedded registry: the servicer of `Registry/Enroll`. One call a runtime life; it also owns that life's report watch.

Reads and writes instead of a generator, since tasks live inside (a yield in a task group is unsafe). A reader cannot tell
half-close, cancel, deadline and lost connection apart, so the end of the stream is a goodbye only after the state `offline`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import anyio
import grpc

from balancer.fleet.books import Recorded
from balancer.fleet.fleet import Fleet
from balancer.fleet.membership import EnrollOutcome, Member
from balancer.fleet.registration import BadRegistration, Registration, SdkTooOld, check_sdk_version
from balancer.fleet.report_watch import ReportWatch
from balancer.fleet.translate import LEG_CHANGES, STATES, registration_from_wire
from protos.switchboard.v1 import registry_pb2, registry_pb2_grpc
from runtime.primitives.clock import Clock
from runtime.wire.signed_tickets import TicketKey

__all__ = ["RegistryService"]

_FIRST_MESSAGE_S = 5.0
Context = grpc.aio.ServicerContext[registry_pb2.EnrollRequest, registry_pb2.EnrollResponse]


@dataclass(frozen=True, slots=True)
class _Verdict:
    """Why we end a stream; the runtime is expected to enroll again, or to give up on a refusal."""

    status: grpc.StatusCode
    text: str


@dataclass(slots=True)
class _Stream:
    member: Member
    scope: anyio.CancelScope
    verdict: _Verdict | None = None
    writing: anyio.Lock = field(default_factory=anyio.Lock)
    """Of two writes at once grpc fails one."""
    drain: anyio.Event = field(default_factory=anyio.Event)
    """The runtime is to be asked to leave."""


@dataclass(slots=True)
class RegistryService(registry_pb2_grpc.RegistryServicer):
    fleet: Fleet
    watch: ReportWatch
    clock: Clock
    min_sdk_version: str
    ticket_keys: Sequence[TicketKey] = ()
    """What runtimes are told to check tickets with."""
    _streams: dict[str, _Stream] = field(default_factory=dict)

    async def Enroll(  # type: ignore[override]  # the stubs know only the generator form
        self, _requests: AsyncIterator[registry_pb2.EnrollRequest], context: Context
    ) -> None:
        registration = await self._registration(context)
        outcome = self.fleet.enroll(registration, self.clock.now_ns())
        member = self.fleet.membership.get(registration.runtime_id)
        assert member is not None
        if outcome is EnrollOutcome.OLDER:
            await context.abort(
                grpc.StatusCode.ALREADY_EXISTS,
                f"runtime {registration.runtime_id!r} is enrolled from {member.facts.websocket_address} under the newer "
                f"incarnation {member.facts.incarnation}; this is {registration.incarnation}",
            )
        verdict = await self._serve(member, context)
        if verdict is not None:
            await context.abort(verdict.status, verdict.text)

    def ask_to_drain(self, runtime_id: str) -> bool:
        """Tells a runtime to take nothing new and to leave when it is empty; what follows is its own affair. False: it is not
        enrolled. Asked again: nothing more."""
        stream = self._streams.get(runtime_id)
        if stream is None:
            return False
        stream.drain.set()
        return True

    def forget(self, member: Member) -> None:
        """Its lease is over: a stream that still hangs there is ended, so that a runtime that wakes enrolls again."""
        self._end(member.facts.runtime_id, member, _Verdict(grpc.StatusCode.UNAVAILABLE, "the lease expired; enroll again"))

    async def _registration(self, context: Context) -> Registration:
        first = None
        with anyio.move_on_after(_FIRST_MESSAGE_S):
            first = await context.read()
        if not isinstance(first, registry_pb2.EnrollRequest) or first.WhichOneof("payload") != "register":
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the first message must be `register`")
            raise AssertionError  # abort raises; the stubs do not say so
        try:
            registration = registration_from_wire(first.register)
            check_sdk_version(registration, self.min_sdk_version)
        except BadRegistration as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except SdkTooOld as error:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
        return registration

    async def _serve(self, member: Member, context: Context) -> _Verdict | None:
        runtime_id = member.facts.runtime_id
        stream = _Stream(member, anyio.CancelScope())
        self._end(runtime_id, None, _Verdict(grpc.StatusCode.ABORTED, "another enrolment of this runtime took over"))
        self._streams[runtime_id] = stream
        try:
            with stream.scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self.watch.run, member)
                    tasks.start_soon(self._tell_to_drain, stream, context)
                    stream.verdict = await self._read(member, stream, context)
                    tasks.cancel_scope.cancel()
        finally:
            # Also on cancellation of the handler (lost connection, server stop): nothing here awaits.
            if self._streams.get(runtime_id) is stream:
                del self._streams[runtime_id]
            self.fleet.stream_ended(member, self.clock.now_ns())
        return stream.verdict

    async def _tell_to_drain(self, stream: _Stream, context: Context) -> None:
        await stream.drain.wait()
        async with stream.writing:
            await context.write(registry_pb2.EnrollResponse(drain=registry_pb2.DrainRequested()))

    async def _read(self, member: Member, stream: _Stream, context: Context) -> _Verdict | None:
        """Until the stream ends (None) or must be ended."""
        life, rule = self.fleet.life, self.fleet.membership.rule
        await context.write(
            registry_pb2.EnrollResponse(
                registered=registry_pb2.Registered(
                    balancer_id=life.balancer_id,
                    balancer_incarnation=life.incarnation,
                    heartbeat_interval_ms=rule.heartbeat_interval_ms,
                    suspect_after_ms=rule.suspect_after_ms,
                    lease_ttl_ms=rule.lease_ttl_ms,
                    ticket_keys=[registry_pb2.TicketKey(key_id=key.key_id, secret=key.secret) for key in self.ticket_keys],
                )
            )
        )
        while True:
            message = await context.read()
            if not isinstance(message, registry_pb2.EnrollRequest):
                return None
            now_ns = self.clock.now_ns()
            match message.WhichOneof("payload"):
                case "heartbeat":
                    self.fleet.heard(member, now_ns)
                    ack = registry_pb2.HeartbeatAck(sequence=message.heartbeat.sequence)
                    async with stream.writing:
                        await context.write(registry_pb2.EnrollResponse(heartbeat=ack))
                case "state":
                    state = STATES.get(message.state.state)
                    if state is None:
                        return _Verdict(grpc.StatusCode.INVALID_ARGUMENT, f"state.state is {message.state.state}; not a state")
                    self.fleet.state_changed(member, state, now_ns)
                case "leg" | "legs":
                    for event in message.legs.events if message.HasField("legs") else (message.leg,):
                        verdict = self._leg(member, event, now_ns)
                        if verdict is not None:
                            return verdict
                case "register":
                    return _Verdict(grpc.StatusCode.INVALID_ARGUMENT, "`register` came twice on one stream")
                case _:
                    self.fleet.heard(member, now_ns)  # a newer runtime's message: heard, not understood

    def _leg(self, member: Member, event: registry_pb2.LegEvent, now_ns: int) -> _Verdict | None:
        change = LEG_CHANGES.get(event.change)
        if change is None:
            return _Verdict(grpc.StatusCode.INVALID_ARGUMENT, f"leg.change is {event.change}; not a change")
        leg = (event.leg.session_id, event.leg.epoch)
        if self.fleet.leg_event(member, leg, change, event.reason, event.ledger_version, now_ns) is Recorded.GAP:
            return _Verdict(
                grpc.StatusCode.ABORTED, f"leg events are missing before ledger_version {event.ledger_version}; enroll again"
            )
        return None

    def _end(self, runtime_id: str, only: Member | None, verdict: _Verdict) -> None:
        stream = self._streams.get(runtime_id)
        if stream is not None and (only is None or stream.member is only):
            stream.verdict = verdict
            stream.scope.cancel()
