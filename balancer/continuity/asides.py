"""What a relay says to a runtime beside the call, as payloads of asides, and what it hears. Shapes: continuity.proto."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from google.protobuf.message import DecodeError

from balancer.continuity.intents import IntentAnswer, IntentState
from protos.switchboard.v1 import continuity_pb2 as pb

__all__ = ["go_on", "hand_over", "intent_answer", "moved_out", "read_aside", "restore", "stay"]

_MOST_SILENT_MS: Final = 2**32 - 1
_STATES: Final[Mapping[IntentState, pb.IntentState.ValueType]] = MappingProxyType(
    {
        IntentState.RECORDED: pb.INTENT_STATE_UNSPECIFIED,
        IntentState.FRESH: pb.INTENT_STATE_FRESH,
        IntentState.FINISHED: pb.INTENT_STATE_FINISHED,
        IntentState.UNKNOWN: pb.INTENT_STATE_UNKNOWN,
        IntentState.REFUSED: pb.INTENT_STATE_REFUSED,
    }
)


def read_aside(payload: bytes) -> pb.RuntimeAside | None:
    """None: it is not one. A newer runtime's unknown kind has no `said`."""
    try:
        return pb.RuntimeAside.FromString(payload)
    except DecodeError:
        return None


def restore(state: bytes, applied: int, replay_from: int) -> bytes:
    return pb.RelayAside(restore=pb.Restore(state=state, applied=applied, replay_from=replay_from)).SerializeToString()


def go_on(told: int, silent_ms: int) -> bytes:
    return pb.RelayAside(go_on=pb.GoOn(told=told, silent_ms=min(max(0, silent_ms), _MOST_SILENT_MS))).SerializeToString()


def hand_over(number: int) -> bytes:
    return pb.RelayAside(hand_over=pb.HandOver(number=number)).SerializeToString()


def stay() -> bytes:
    return pb.RelayAside(stay=pb.Stay()).SerializeToString()


def moved_out() -> bytes:
    return pb.RelayAside(moved_out=pb.MovedOut()).SerializeToString()


def intent_answer(number: int, answer: IntentAnswer) -> bytes:
    said = pb.IntentAnswer(number=number, state=_STATES[answer.state], result_json=answer.result_json, is_error=answer.is_error)
    return pb.RelayAside(intent_answer=said).SerializeToString()
