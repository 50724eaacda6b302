"""The common form of every measured result: targets with their values, and whether they were met. A miss is printed as a miss."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["Target", "all_met", "as_json"]

_RELATIONS: Final[dict[str, Callable[[float, float], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    ">=": operator.ge,
    ">": operator.gt,
}


@dataclass(frozen=True, slots=True)
class Target:
    """`value` shall stand in `relation` to `bound`; a value that is missing (None) misses."""

    name: str
    value: float | None
    unit: str
    relation: str
    bound: float

    @property
    def is_met(self) -> bool:
        return self.value is not None and _RELATIONS[self.relation](self.value, self.bound)


def all_met(targets: Sequence[Target]) -> bool:
    return bool(targets) and all(target.is_met for target in targets)


def as_json(targets: Sequence[Target]) -> list[dict[str, Any]]:
    return [
        {
            "name": target.name,
            "value": target.value,
            "unit": target.unit,
            "target": f"{target.relation} {target.bound:g}",
            "ok": target.is_met,
        }
        for target in targets
    ]
