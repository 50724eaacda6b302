"""Which runtime serves a relayed call: feeds the move table with what happens, and does what it says.

While one runtime serves, every whole frame of the caller is kept and forwarded; checkpoints say what may be forgotten. Where
frames go while runtimes change is the leg switch's affair, and which runtime is next that of the next runtime.

A runtime that is lost before the first checkpoint has said nothing: the call begins anew with another one, which is given all
that the caller has sent and cannot tell it from a new call.
"""

from __future__ import annotations

from functools import partial
from typing import Final, assert_never

from balancer.continuity import asides
from balancer.continuity.call_memory import CallMemory, Checkpoint
from balancer.continuity.intents import IntentName
from balancer.continuity.move_table import MoveEffect, MoveInput, MoveState, step
from balancer.continuity.pulses import Pulses
from balancer.continuity.silence_watch import Silence, SilenceWatch
from balancer.front.dial import RuntimeConnection
from balancer.front.leg_switch import LegSwitch
from balancer.front.move_counts import MoveKind, MoveResult
from balancer.front.next_runtime import NextRuntime
from balancer.front.relay_leg import Leg, runtime_leg
from balancer.front.relay_rule import RelayEnd
from balancer.front.succession_ports import RelayedCall, SuccessionOwner
from balancer.front.upgrade import Upgrade
from balancer.placement.placement import Placement
from balancer.routing.request import PlacementRequest
from protos.switchboard.v1 import continuity_pb2 as pb
from runtime.primitives.clock import NS_PER_MS
from runtime.wire.websocket_frames import PING, AsideFrame

__all__ = ["Succession"]

_PLANNED: Final = frozenset({MoveState.SEEKING, MoveState.HANDING_OVER, MoveState.RESTORING})
_SEARCHING: Final = frozenset({MoveState.SEEKING, MoveState.SUSPECTED, MoveState.ORPHANED})
_LEAVING: Final = frozenset({1001, 1011, 1012, 1013})
"""Close codes by which a runtime speaks of itself (RFC 6455 section 7.4.1, and its registry); others are a word to the caller."""


class Succession:
    """One call's. Made when caller and runtime are connected and have agreed on asides."""

    __slots__ = (
        "_began_ns",
        "_call",
        "_hand_over",
        "_kind",
        "_late_ns",
        "_next",
        "_owner",
        "_rule",
        "_silence",
        "_wanted_at",
        "is_over",
        "memory",
        "state",
        "switch",
    )

    def __init__(self, call: RelayedCall, owner: SuccessionOwner, upgrade: Upgrade, request: PlacementRequest) -> None:
        rule = call.rule.succession
        self.memory = CallMemory(rule.memory)
        self.switch = LegSwitch(call, self.memory, owner.mask_key)
        self.state = MoveState.SERVING
        self.is_over = False
        """The runtime has said that the session is over."""
        self._call = call
        self._owner = owner
        self._rule = rule
        not_found = partial(self._happened, MoveInput.NOT_FOUND)
        self._next = NextRuntime(upgrade, request, rule, owner.search, self._found, not_found)
        self._wanted_at = ""
        self._hand_over = 0
        self._kind = MoveKind.PLANNED
        self._began_ns = 0
        self._late_ns = 0
        self._silence = SilenceWatch(rule.probe_after_ms, rule.suspect_after_ms)
        self.switch.serve()

    @property
    def can_move(self) -> bool:
        return self.state is MoveState.SERVING and self.memory.can_restore and not (self.is_over or self._call.is_closing)

    @property
    def is_replaceable(self) -> bool:
        """The call could go on without the runtime that serves it: from the last checkpoint, or from its beginning."""
        return self.memory.can_restore or self.memory.can_begin_anew(self.switch.told)

    @property
    def is_quiet(self) -> bool:
        """Nobody spoke at the last checkpoint: a good moment to move."""
        return self.memory.checkpoint is not None and self.memory.checkpoint.is_quiet

    # What happens

    def want(self, at: str = "") -> bool:
        """A planned move, to the runtime `at` if one is named. False: not now."""
        if not self.can_move:
            return False
        self._wanted_at = at
        self._happened(MoveInput.WANTED)
        return True

    def suspect(self) -> None:
        """The serving runtime has not been heard for too long."""
        if self.is_replaceable and not self.is_over and not self._call.is_closing and not self._call.runtime.heard:
            self._happened(MoveInput.SILENT)

    def outlives(self, leg: Leg, close_code: int | None = None) -> bool:
        """The serving runtime `leg` is lost, or closed with `close_code`: whether the call goes on. If so, that leg is done."""
        if self.is_over or not self.is_replaceable or not self._next.may_lose:
            return False
        if self.memory.checkpoint is None and close_code is not None and close_code not in _LEAVING:
            return False  # it turned the caller away, and so would any other
        self._lose(leg)
        self._happened(MoveInput.LOST)
        return True

    def side_leg_ended(self, leg: Leg) -> None:
        """A connection that does not serve is over, half-closed, or broke the protocol."""
        leg.stop()
        if leg is self.switch.target:
            self._next.could_not_take(leg)
            self._happened(MoveInput.TARGET_FAILED)
        else:
            self.switch.left(leg)

    def call_is_over(self) -> None:
        self._happened(MoveInput.OVER)
        self.switch.close()

    def heard_asides(self, leg: Leg, frames: list[AsideFrame]) -> None:
        for frame in frames:
            if not leg.is_sending:
                return
            said = asides.read_aside(frame.payload)
            if leg is self.switch.target:
                self._target_said(leg, said)
            elif leg is self._call.runtime:
                fault = "an aside that is none" if said is None else self._runtime_said(leg, said, frame.after)
                if fault:
                    self._call.runtime_lost(leg, RelayEnd.RUNTIME_BROKE_PROTOCOL, 1011, "the runtime broke the protocol")

    def tend(self, now_ns: int, awake_ns: int, was_heard: bool, pulses: Pulses) -> None:
        """Time passed. `was_heard`: the serving runtime said something since the last time, or could not."""
        self.memory.tick(now_ns)
        self.switch.tend(now_ns)
        if self._late_ns and now_ns >= self._late_ns:
            self._late_ns = 0
            self._happened(MoveInput.LATE)
        if not self.switch.is_served:
            return
        life = self._call.runtime.life
        silence, is_probe_due = self._silence.look(awake_ns, was_heard or pulses.is_alive(life), pulses.may_probe(life))
        if is_probe_due:
            pulses.probed(life)
            self._call.write_control(self._call.runtime, PING, b"")
        if silence is Silence.TOO_LONG:
            self.suspect()
        elif silence is Silence.NONE and self.state is MoveState.SUSPECTED:
            self._happened(MoveInput.HEARD)

    # What runtimes say

    def _runtime_said(self, leg: Leg, said: pb.RuntimeAside, after: int) -> str:
        """What is wrong with it, if anything."""
        match said.WhichOneof("said"):
            case "checkpoint":
                return self._checkpoint_came(said.checkpoint, self.switch.ordinal(after))
            case "over":
                self.is_over = True
                self._happened(MoveInput.OVER)
            case "intent_begun":
                begun = said.intent_begun
                name = IntentName(begun.key, begun.tool, begun.arguments_json)
                self.switch.say(leg, asides.intent_answer(begun.number, self.memory.intents.begin(leg.epoch, name)))
            case "intent_finished":
                done = said.intent_finished
                name = IntentName(done.key, done.tool, done.arguments_json)
                answer = self.memory.intents.finish(leg.epoch, name, done.result_json, done.is_error)
                self.switch.say(leg, asides.intent_answer(done.number, answer))
            case "not_restored":
                return "it could not restore the session"
            case "restored" | None:  # after GoOn that is no news; and what a newer runtime says may be left unheard
                pass
        return ""

    def _checkpoint_came(self, message: pb.Checkpoint, after: int) -> str:
        checkpoint = Checkpoint(message.state, message.applied, message.replay_from, message.is_quiet, after)
        fault = self.memory.take(checkpoint, self._call.caller.borders.messages)
        if not fault:
            self._next.came_on()
            if self.state is MoveState.SUSPECTED:  # a search for a call that begins anew must not outlast this
                self._happened(MoveInput.HEARD)
            if message.answers and message.answers == self._hand_over:
                self._happened(MoveInput.STATE_CAME if self.memory.can_restore else MoveInput.STATE_USELESS)
        return fault

    def _target_said(self, leg: Leg, said: pb.RuntimeAside | None) -> None:
        what = None if said is None else said.WhichOneof("said")
        if what == "restored":
            self._happened(MoveInput.READY)
        elif said is None or what in ("not_restored", "over"):
            self.side_leg_ended(leg)

    # What is done

    def _happened(self, what: MoveInput) -> None:
        before, made = self.state, step(self.state, what)
        self.state = made.state
        if before is not made.state:
            self._entered(before, made.state)
        for effect in made.effects:
            self._do(effect)
        if made.state is MoveState.ENDED and before not in (MoveState.SERVING, MoveState.ENDED):
            self._count(MoveResult.GAVE_UP if MoveEffect.GIVE_UP in made.effects else MoveResult.LEFT)

    def _entered(self, before: MoveState, state: MoveState) -> None:
        now_ns = self._call.now_ns()
        if before is MoveState.SERVING:
            self._began_ns = now_ns
        match state:
            case MoveState.SEEKING:
                self._kind = MoveKind.PLANNED
                self._late_ns = now_ns + self._rule.move_timeout_ms * NS_PER_MS
            case MoveState.SUSPECTED:
                self._kind, self._late_ns = MoveKind.SILENT, 0
            case MoveState.ORPHANED if before is not MoveState.SUSPECTED:
                self._kind, self._late_ns = MoveKind.CRASH, 0
            case _:
                self._late_ns = self._late_ns if state in _PLANNED else 0

    def _do(self, effect: MoveEffect) -> None:
        switch = self.switch
        match effect:
            case MoveEffect.SEEK:
                self._next.seek(
                    serving=self._call.runtime if switch.is_served else None,
                    is_planned=self._kind is MoveKind.PLANNED,
                    is_adoption=self.memory.checkpoint is not None,
                    only_at=self._wanted_at,
                )
            case MoveEffect.STOP_SEEKING:
                self._next.stop()
            case MoveEffect.HOLD:
                switch.hold()
                self._next.seek_longer()
            case MoveEffect.ASK_FOR_STATE:
                self._hand_over += 1
                switch.say(self._call.runtime, asides.hand_over(self._hand_over))
            case MoveEffect.RESTORE:
                self._owner.replayed(switch.restore())
            case MoveEffect.STAY:
                switch.say(self._call.runtime, asides.stay())
                switch.serve()
            case MoveEffect.DROP_TARGET:
                switch.drop_target()
            case MoveEffect.RELEASE_SOURCE:
                switch.release()
            case MoveEffect.CUT_SOURCE:
                self._lose(self._call.runtime)
            case MoveEffect.GO_ON:
                switch.go_on()
                self._silence.begin_again()
            case MoveEffect.MOVED:
                self._count(MoveResult.MOVED)
            case MoveEffect.FAILED:
                self._count(MoveResult.STAYED)
            case MoveEffect.GIVE_UP:
                self._call.give_up(1013, "no capacity")
            case _:
                assert_never(effect)

    def _lose(self, leg: Leg) -> None:
        self._next.lost(leg)
        self.switch.cut()

    def _count(self, result: MoveResult) -> None:
        self._owner.moved(self._call, self._kind, result, self._call.now_ns() - self._began_ns)

    def _found(self, connection: RuntimeConnection, placement: Placement) -> None:
        if self.state is MoveState.SUSPECTED and self._call.runtime.heard:
            self._happened(MoveInput.HEARD)
        if self.state not in _SEARCHING or not self.is_replaceable:
            connection.transport.abort()
            self._happened(MoveInput.NOT_FOUND)
            return
        target = runtime_leg(self._call, connection.transport, placement, self._call.rule.max_frame_bytes, has_asides=True)
        target.forward = lambda _frames: self.side_leg_ended(target)  # a target says nothing to the caller before it may
        target.take_over()
        self.switch.target = target
        self._happened(MoveInput.ARRIVED)
        if connection.early:
            target.data_received(connection.early)
        if target is not self._call.runtime or self._call.caller.paused_ns is None:
            target.resume_reading()
