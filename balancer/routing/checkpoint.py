"""The state of a view and a router as a value, so that a journal can begin in the middle of a balancer's life.

`capture` copies on the spot, as cheaply as that goes; `to_json` and `restore` may take their time elsewhere. Only classes of the
table are ever made from a file. Caches (masks, pools, plans, rings) are not part of the state: they are dropped on both sides, so
what follows is worked out anew from the same ground.
"""

from __future__ import annotations

import base64
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from balancer.capacity.cost_factors import CostFactors
from balancer.capacity.cpu_curve import Curve, CurveFit
from balancer.capacity.effective_capacity import CapacityRule
from balancer.capacity.session_estimate import EndRate
from balancer.capacity.start_rate import StartRate
from balancer.capacity.tide import Tide
from balancer.routing.columns import Columns
from balancer.routing.cost import CostRule
from balancer.routing.fleet_view import FleetView
from balancer.routing.learned_capacity import LearnedCapacity
from balancer.routing.load_model import LoadModel
from balancer.routing.load_rule import LoadRule
from balancer.routing.overload import FleetOverload, OverloadRule
from balancer.routing.policies import POLICIES
from balancer.routing.policies.consistent_hash import ConsistentHash
from balancer.routing.policies.weighted_remaining import Remaining
from balancer.routing.request import Priority
from balancer.routing.response_times import ResponseTimes
from balancer.routing.router import Router
from balancer.routing.runtime_facts import RuntimeFacts
from runtime.primitives.load_snapshot import CostClass, RuntimeState

__all__ = ["capture", "restore", "to_json"]

_VIEW: Final = ("columns", "load", "response_times", "membership", "_facts", "_slots", "_free")
_ROUTER: Final = ("_overload", "_policy")
_CLASSES: Final[dict[str, type[Any]]] = {
    each.__name__: each
    for each in (
        CapacityRule, CostFactors, CostRule, Curve, CurveFit, EndRate, FleetOverload, LearnedCapacity, LoadModel, LoadRule,
        OverloadRule, Remaining, ResponseTimes, RuntimeFacts, StartRate, Tide, *(type(make()) for make in POLICIES.values()),
    )
}  # fmt: skip
_ENUMS: Final[dict[str, type[Any]]] = {each.__name__: each for each in (CostClass, Priority, RuntimeState)}
_PLAIN: Final = (str, int, float, bool, type(None), CostClass, Priority, RuntimeState)
_FROZEN: Final = (CapacityRule, CostRule, Curve, LoadRule, OverloadRule, Remaining, RuntimeFacts)
"""Never changed, so captured as they are."""
_ATOMS: Final = frozenset((*_PLAIN, *_FROZEN))


@dataclass(frozen=True, slots=True)
class _Captured:
    """One object, or one container that needs more than JSON has: its kind and its parts."""

    kind: str
    parts: Any


def capture(view: FleetView, router: Router) -> Any:
    """Drops the caches of both. What it gives shares nothing that changes."""
    view.forget_masks()
    router.forget_pools()
    seen: dict[int, int] = {}
    affinity = view.affinity
    return {
        "view": {name: _capture(getattr(view, name), seen) for name in _VIEW},
        "affinity": [affinity._limit, affinity._kept_ns, dict(affinity._live), dict(affinity._ended)],
        "router": {name: _capture(getattr(router, name), seen) for name in _ROUTER},
    }


def _capture(value: Any, seen: dict[int, int]) -> Any:
    if isinstance(value, (*_PLAIN, *_FROZEN)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, (list, tuple)):
        is_flat = _ATOMS.issuperset(map(type, value))  # ten thousand runtimes: a copy must not stop the event loop for long
        return _Captured(type(value).__name__, list(value) if is_flat else [_capture(each, seen) for each in value])
    if isinstance(value, frozenset):
        return _Captured("frozenset", sorted(value))
    if isinstance(value, dict):
        kind = "OrderedDict" if isinstance(value, OrderedDict) else "dict"
        if _ATOMS.issuperset(map(type, value.values())) and _ATOMS.issuperset(map(type, value)):
            return _Captured(kind, list(value.items()))
        return _Captured(kind, [(_capture(key, seen), _capture(each, seen)) for key, each in value.items()])
    if id(value) in seen:  # the columns, which view and load model share
        return _Captured("same", seen[id(value)])
    seen[id(value)] = len(seen)
    if isinstance(value, Columns):
        return _Captured("Columns", [value.size, value._floats.copy(), value._bools.copy(), value._times.copy()])
    if isinstance(value, ConsistentHash):
        return _Captured("ConsistentHash", [value._ring._virtual_nodes])
    name = type(value).__name__
    if _CLASSES.get(name) is not type(value):
        raise TypeError(f"{name} has no place in a checkpoint")
    return _Captured(name, {each: _capture(getattr(value, each), seen) for each in _attributes(value)})


def _attributes(value: Any) -> Iterator[str]:
    for each in type(value).__mro__:
        slots = each.__dict__.get("__slots__", ())
        yield from (slots,) if isinstance(slots, str) else slots
    yield from getattr(value, "__dict__", ())


def to_json(state: Any) -> Any:
    """A captured state as JSON values. Numbers keep every bit."""
    if isinstance(state, dict):
        return {key: to_json(each) for key, each in state.items()}
    if isinstance(state, (list, tuple)):
        return [to_json(each) for each in state]
    if isinstance(state, _Captured):
        return {"!": state.kind, "=": to_json(state.parts)}
    if isinstance(state, np.ndarray):
        data = base64.b64encode(np.ascontiguousarray(state).tobytes()).decode()
        return {"!": "array", "=": [state.dtype.str, list(state.shape), data]}
    if isinstance(state, float) and not np.isfinite(state):
        return {"!": "float", "=": repr(state)}
    if isinstance(state, (CostClass, Priority, RuntimeState)):
        return {"!": type(state).__name__, "=": state.value}
    if isinstance(state, _FROZEN):
        parts = {each: to_json(_capture(getattr(state, each), {})) for each in _attributes(state)}
        return {"!": type(state).__name__, "=": parts}
    return state


def restore(state: Any, view: FleetView, router: Router) -> None:
    """The state into a new view and router. Raises KeyError, TypeError or ValueError for what `to_json` did not make."""
    made: list[Any] = []
    for name in _VIEW:
        setattr(view, name, _restored(state["view"][name], made))
    limit, kept_ns, live, ended = state["affinity"]
    affinity = view.affinity
    affinity._limit, affinity._kept_ns = int(limit), int(kept_ns)
    affinity._live = OrderedDict(live)
    affinity._ended = OrderedDict((session, (str(where), int(when))) for session, (where, when) in ended.items())
    for name in _ROUTER:
        setattr(router, name, _restored(state["router"][name], made))
    view.forget_masks()
    router.forget_pools()


def _restored(value: Any, made: list[Any]) -> Any:
    if not isinstance(value, dict):
        if isinstance(value, list):
            raise TypeError("a bare list")
        return value
    kind, parts = value["!"], value["="]
    match kind:
        case "array":
            dtype, shape, data = parts
            return np.frombuffer(base64.b64decode(data, validate=True), np.dtype(dtype)).reshape(shape).copy()
        case "float":
            return float(parts)
        case "list" | "tuple":
            items = [_restored(each, made) for each in parts]
            return items if kind == "list" else tuple(items)
        case "frozenset":
            return frozenset(parts)
        case "dict" | "OrderedDict":
            pairs = [(_restored(key, made), _restored(each, made)) for key, each in parts]
            return OrderedDict(pairs) if kind == "OrderedDict" else dict(pairs)
        case "same":
            return made[parts]
        case "Columns":
            place = _reserve(made)
            size, *arrays = (_restored(each, made) for each in parts)
            made[place] = columns = Columns(1)
            columns.size = size
            columns._allot(*arrays)
            return columns
        case "ConsistentHash":
            place = _reserve(made)
            made[place] = ConsistentHash(parts[0])
            return made[place]
    if kind in _ENUMS:
        return _ENUMS[kind](parts)
    cls = _CLASSES[kind]
    instance: Any = object.__new__(cls)
    if not issubclass(cls, _FROZEN):
        made.append(instance)
    for name, each in parts.items():
        object.__setattr__(instance, name, _restored(each, made))
    return instance


def _reserve(made: list[Any]) -> int:
    """Numbers are given in the order in which objects were first met."""
    made.append(None)
    return len(made) - 1
