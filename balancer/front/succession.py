"""Which runtime serves a relayed call: feeds the move table with what happens, and does what it says.

While one runtime serves, every whole frame of the caller is kept and forwarded; checkpoints say what may be forgotten. Where
frames go while runtimes change is the leg switch's affair.
"""

from __future__ import annotations

from typing import Final, assert_never

from balancer.continuity import asides
from balancer.continuity.call_memory import CallMemory, Checkpoint
from balancer.continuity.intents import IntentName
from balancer.continuity.move_table import MoveEffect, MoveInput, MoveState, step
from balancer.continuity.silence_watch import Silence, SilenceWatch
from balancer.front.dial import RuntimeConnection
from balancer.front.leg_switch import LegSwitch
from balancer.front.move_counts import MoveKind, MoveResult
from balancer.front.relay_leg import Leg, runtime_leg
from balancer.front.relay_rule import RelayEnd
from balancer.front.search import Search
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


class Succession:
    """One call's. Made when caller and runtime are connected and have agreed on asides."""

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
        self._upgrade = upgrade
        self._request = request
        self._epoch = request.epoch
        self._wanted_at = ""
        self._search: Search | None = None
        self._hand_over = 0
        self._kind = MoveKind.PLANNED
        self._began_ns = 0
        self._late_ns = 0
        self._losses = 0
        self._lost: set[tuple[str, int]] = set()
        """Runtime lives that have lost the call since its last checkpoint."""
        self._failed: set[tuple[str, int]] = set()
        """Those that could not take it, until nobody else is left."""
        self._silence = SilenceWatch(rule.probe_after_ms, rule.suspect_after_ms)
        self.switch.serve()

    @property
    def can_move(self) -> bool:
        return self.state is MoveState.SERVING and self.memory.can_restore and not (self.is_over or self._call.is_closing)

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
        if self.memory.can_restore and not self.is_over and not self._call.is_closing and not self._call.runtime.heard:
            self._happened(MoveInput.SILENT)

    def outlives(self, leg: Leg) -> bool:
        """The serving runtime `leg` is lost: whether the call goes on without it. If so, the leg is done with."""
        if self.is_over or not self.memory.can_restore or self._losses >= self._rule.most_losses:
            return False
        self._lose(leg)
        self._happened(MoveInput.LOST)
        return True

    def side_leg_ended(self, leg: Leg) -> None:
        """A connection that does not serve is over, half-closed, or broke the protocol."""
        leg.stop()
        if leg is self.switch.target:
            self._failed.add((leg.runtime_id, leg.incarnation))
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

    def tend(self, now_ns: int, awake_ns: int, was_heard: bool) -> None:
        """Time passed. `was_heard`: the serving runtime said something since the last time, or could not."""
        self.memory.kept.tick(now_ns)
        self.switch.tend(now_ns)
        if self._late_ns and now_ns >= self._late_ns:
            self._late_ns = 0
            self._happened(MoveInput.LATE)
        if not self.switch.is_served:
            return
        silence, is_probe_due = self._silence.look(awake_ns, was_heard)
        if is_probe_due:
            self._call.write_control(self._call.runtime, PING, b"")
        if silence is Silence.NONE:
            self._happened(MoveInput.HEARD)
        elif silence is Silence.TOO_LONG:
            self.suspect()

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
            self._losses = 0
            self._lost.clear()
            if message.answers and message.answers == self._hand_over:
                self._happened(MoveInput.STATE_CAME)
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
                self._seek()
            case MoveEffect.STOP_SEEKING:
                if self._search is not None:
                    self._search.stop()
                    self._search = None
            case MoveEffect.HOLD:
                switch.hold()
                if self._search is not None:
                    self._search.begin_again()
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
        self._losses += 1
        self._lost.add((leg.runtime_id, leg.incarnation))
        self.switch.cut()

    def _count(self, result: MoveResult) -> None:
        self._owner.moved(self._call, self._kind, result, self._call.now_ns() - self._began_ns)

    def _seek(self) -> None:
        is_planned = self._kind is MoveKind.PLANNED
        runtime = self._call.runtime
        timeout_ms = self._rule.move_timeout_ms if is_planned else self._rule.adopt_timeout_ms
        self._search = Search(
            request=self._request,
            upgrade=self._upgrade,
            only_runtime=self._wanted_at if is_planned else "",
            never=frozenset({(runtime.runtime_id, runtime.incarnation)} if self.switch.is_served else ()),
            rather_not=frozenset(self._lost | self._failed),
            is_persistent=not is_planned,
            within_s=timeout_ms / 1000,
            next_epoch=self._next_epoch,
            found=self._found,
            not_found=self._not_found,
        )
        self._owner.search(self._search)

    def _next_epoch(self) -> int:
        self._epoch += 1
        return self._epoch

    def _found(self, connection: RuntimeConnection, placement: Placement) -> None:
        self._search = None
        if self.state is MoveState.SUSPECTED and self._call.runtime.heard:
            self._happened(MoveInput.HEARD)
        if self.state not in _SEARCHING:
            connection.transport.abort()
            return
        most = self._call.rule.max_frame_bytes
        target = runtime_leg(self._call, connection.transport, placement, max_frame_bytes=most, has_asides=True)
        target.forward = lambda _frames: self.side_leg_ended(target)  # a target says nothing to the caller before it may
        target.take_over()
        self.switch.target = target
        self._happened(MoveInput.ARRIVED)
        if connection.early:
            target.data_received(connection.early)
        if target is not self._call.runtime or self._call.caller.paused_ns is None:
            target.resume_reading()

    def _not_found(self) -> None:
        self._search = None
        self._failed.clear()
        self._happened(MoveInput.NOT_FOUND)
