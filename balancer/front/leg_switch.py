"""Where the frames of a call go while runtimes change: the caller's to who serves, to nobody, or to two; whose reach the caller.

Everything here happens between two events, at borders of frames, so that each message has exactly one place on either side of a
change. A side leg is a connection that does not serve: the target before the cut, a source after it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from balancer.continuity import asides
from balancer.continuity.call_memory import CallMemory, Checkpoint
from balancer.front.relay_leg import Leg
from runtime.primitives.clock import NS_PER_MS, NS_PER_S
from runtime.wire.asides import build_aside

__all__ = ["LegSwitch", "TwoSided"]

_LEAVE_NS: Final = 5 * NS_PER_S
"""What a source that was told to leave has to close its connection."""


class TwoSided(Protocol):
    """The relay: `runtime` is the leg that serves, or the one that did last."""

    caller: Leg
    runtime: Leg

    @property
    def to_caller(self) -> Callable[[bytes], None]:
        """Takes the frames that the caller is to have."""
        ...

    def now_ns(self) -> int: ...


class LegSwitch:
    """One call's. Exactly one of `serve`, `hold` and `restore` says at any time where the caller's frames go."""

    __slots__ = ("_call", "_given", "_leaving", "_mask_key", "_memory", "_told_before", "_told_ns", "is_served", "target")

    def __init__(self, call: TwoSided, memory: CallMemory, mask_key: Callable[[], bytes]) -> None:
        self._call = call
        self._memory = memory
        self._mask_key = mask_key
        self.target: Leg | None = None
        self.is_served = True
        """Somebody serves: what the serving leg sends reaches the caller."""
        self._told_before = 0
        self._told_ns = call.now_ns()
        self._given: Checkpoint | None = None
        """What the target was given to go on with; None also where the call begins anew with it."""
        self._leaving: dict[Leg, int] = {}
        """Sources that were told to leave, and until when they have time."""

    @property
    def told(self) -> int:
        """Ordinal of the last server message that the caller was sent, over all legs."""
        return self._told_before + (self._call.runtime.borders.messages if self.is_served else 0)

    def ordinal(self, of_the_leg: int) -> int:
        """The call's ordinal of a message by its number on the serving leg."""
        return self._told_before + of_the_leg

    def say(self, leg: Leg, payload: bytes) -> None:
        leg.write(build_aside(payload, self._mask_key()))

    # Where the caller's frames go

    def serve(self) -> None:
        """To the serving leg alone, and its frames to the caller."""
        caller, runtime = self._call.caller, self._call.runtime
        kept, to_runtime, to_caller = self._memory.kept, runtime.transport.write, self._call.to_caller
        now_ns = self._call.now_ns

        def keep_and_forward(frames: bytes) -> None:
            borders = caller.borders  # others, once it has come back
            kept.add(frames, borders.messages, borders.is_in_message)
            to_runtime(frames)

        def tell(frames: bytes) -> None:
            self._told_ns = now_ns()
            to_caller(frames)

        kept.is_frozen = False
        caller.forward, runtime.forward = keep_and_forward, tell

    def hold(self) -> None:
        """Kept for whoever comes; who sends more than may be kept is not read until then."""
        caller, kept = self._call.caller, self._memory.kept

        def keep(frames: bytes) -> None:
            kept.add(frames, caller.borders.messages, caller.borders.is_in_message)
            if kept.is_full:
                caller.pause_reading()

        kept.is_frozen = True
        caller.forward = keep
        caller.resume_reading()  # the buffer that may have held it back is gone

    def restore(self) -> int:
        """The target gets the last checkpoint and the caller's messages since, and from now on what the serving leg gets. Where
        no checkpoint ever came it gets all that the caller has said. Answers with the bytes of messages that it was given."""
        target, checkpoint, caller, runtime = self.target, self._memory.checkpoint, self._call.caller, self._call.runtime
        assert target is not None
        kept = self._memory.kept
        self._given = checkpoint
        replay_from = 1
        if checkpoint is not None:
            replay_from = checkpoint.replay_from
            self.say(target, asides.restore(checkpoint.whole_state, checkpoint.applied, replay_from))
        frames = kept.since(replay_from)
        if frames:
            target.write(frames)

        def to_both(frames: bytes) -> None:
            kept.add(frames, caller.borders.messages, caller.borders.is_in_message)
            runtime.write(frames)
            target.write(frames)

        caller.forward = to_both
        return len(frames)

    # Who serves

    def go_on(self) -> None:
        """The target serves from here: it learns what the caller was told since its checkpoint. Whoever served before is done."""
        target, given, caller = self.target, self._given, self._call.caller
        assert target is not None
        if given is not None:
            silent_ms = (self._call.now_ns() - self._told_ns) // NS_PER_MS
            self.say(target, asides.go_on(self.told - given.after, silent_ms))
        self._call.runtime, self.target, self._given, self.is_served = target, None, None, True
        self.serve()
        if target.paused_ns is None:
            caller.resume_reading()
        else:
            caller.pause_reading()
        if caller.paused_ns is not None:  # its reader is waited for already, and nobody says so again
            target.pause_reading()

    def cut(self) -> None:
        """The serving leg is aborted, and nothing more of it is forwarded."""
        self._retire().abort()

    def release(self) -> None:
        """The serving leg is told that the session goes on elsewhere. It ends the connection: were we to do that while it still
        sends, the reset could overtake what it is to read."""
        now_ns = self._call.now_ns()
        leg = self._retire()
        self.say(leg, asides.moved_out())
        leg.resume_reading()
        self._leaving[leg] = now_ns + _LEAVE_NS

    def drop_target(self) -> None:
        if self.target is not None:
            self.target.stop()
            self.target.abort()
            self.target = self._given = None

    def _retire(self) -> Leg:
        leg = self._call.runtime
        self._told_before, self.is_served = self.told, False
        leg.stop()
        return leg

    # Sources that leave

    def left(self, leg: Leg) -> None:
        """A side leg has closed its direction, or broke the protocol."""
        if self._leaving.pop(leg, None) is not None and not leg.transport.is_closing():
            leg.transport.close()

    def tend(self, now_ns: int) -> None:
        for leg, until_ns in list(self._leaving.items()):
            if now_ns >= until_ns:
                del self._leaving[leg]
                leg.abort()

    def close(self) -> None:
        """The call is over."""
        for leg in list(self._leaving):
            self.left(leg)  # flushed first: it must read that it is to leave
