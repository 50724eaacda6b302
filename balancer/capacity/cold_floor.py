"""A runtime with a few sessions is no smaller than an idle one.

R1 gives an idle runtime the cold allowance, and a runtime with one session at 30 % CPU room for less than one more: the formula
divides by what one call's start happened to cost. Up to the cold allowance the two are made continuous:

    C(n, u) = max(E(n, u), E(0, u))      for n below the cold allowance
    C(n, u) = E(n, u)                    from there on
"""

from __future__ import annotations

from balancer.capacity.effective_capacity import CapacityRule, effective_capacity

__all__ = ["floored_capacity"]


def floored_capacity(active: int, utilisation: float, hard_limit: int, rule: CapacityRule) -> float:
    """C, in sessions. Arguments and errors as for `effective_capacity`.

    >>> floored_capacity(1, 0.3, 32, CapacityRule()), floored_capacity(1, 0.8, 32, CapacityRule())
    (4.0, 1.0)
    """
    effective = effective_capacity(active, utilisation, hard_limit, rule)
    if active < rule.cold_allowance:
        return max(effective, effective_capacity(0, utilisation, hard_limit, rule))
    return effective
