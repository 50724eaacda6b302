"""Which runtimes a call may go to next, as which leg, and the one search for it that runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from balancer.front.dial import RuntimeConnection
from balancer.front.relay_leg import Leg
from balancer.front.relay_rule import SuccessionRule
from balancer.front.search import Search
from balancer.front.upgrade import Upgrade
from balancer.placement.placement import Placement
from balancer.routing.request import PlacementRequest

__all__ = ["NextRuntime"]

_NOBODY: Final[frozenset[tuple[str, int]]] = frozenset()
"""One for all: an empty set of its own would be 216 bytes a call."""


class NextRuntime:
    """One call's. Each `seek` ends in one of `found` and `not_found`, unless it is stopped before."""

    __slots__ = (
        "_begin",
        "_epoch",
        "_failed",
        "_found",
        "_losses",
        "_lost",
        "_not_found",
        "_request",
        "_rule",
        "_search",
        "_upgrade",
    )

    def __init__(
        self,
        upgrade: Upgrade,
        request: PlacementRequest,
        rule: SuccessionRule,
        begin: Callable[[Search], None],
        found: Callable[[RuntimeConnection, Placement], None],
        not_found: Callable[[], None],
    ) -> None:
        """`upgrade` and `request`: the call's first. `begin` runs a search in a task of its own."""
        self._upgrade = upgrade
        self._request = request
        self._rule = rule
        self._begin = begin
        self._found = found
        self._not_found = not_found
        self._epoch = request.epoch
        self._search: Search | None = None
        self._losses = 0
        self._lost = _NOBODY
        """Runtime lives that have lost the call since its last checkpoint."""
        self._failed = _NOBODY
        """Those that could not take it, until nobody else is left."""

    @property
    def may_lose(self) -> bool:
        """False: so many runtimes were lost in a row that it may be the call that takes them down."""
        return self._losses < self._rule.most_losses

    def lost(self, leg: Leg) -> None:
        """The runtime of `leg` has lost the call."""
        self._losses += 1
        self._lost |= {leg.life}

    def came_on(self) -> None:
        """A checkpoint came: who was lost before it was not lost to what the caller says now."""
        self._losses = 0
        self._lost = _NOBODY

    def could_not_take(self, leg: Leg) -> None:
        self._failed |= {leg.life}

    def seek(self, *, serving: Leg | None, is_planned: bool, is_adoption: bool, only_at: str = "") -> None:
        """`serving`: whose runtime must not get it, since it is there. `only_at`: the id of one that a planned move names."""
        timeout_ms = self._rule.move_timeout_ms if is_planned else self._rule.adopt_timeout_ms
        self._search = Search(
            request=replace(self._request, is_adoption=is_adoption),
            upgrade=self._upgrade,
            only_runtime=only_at if is_planned else "",
            never=_NOBODY if serving is None else frozenset({serving.life}),
            rather_not=self._lost | self._failed,
            is_persistent=not is_planned,
            within_s=timeout_ms / 1000,
            next_epoch=self._next_epoch,
            found=self._search_found,
            not_found=self._search_failed,
        )
        self._begin(self._search)

    def seek_longer(self) -> None:
        """The search that runs, if one does, has its whole time from now on."""
        if self._search is not None:
            self._search.begin_again()

    def stop(self) -> None:
        if self._search is not None:
            self._search.stop()
            self._search = None

    def _next_epoch(self) -> int:
        self._epoch += 1
        return self._epoch

    def _search_found(self, connection: RuntimeConnection, placement: Placement) -> None:
        self._search = None
        self._found(connection, placement)

    def _search_failed(self) -> None:
        self._search = None
        self._failed = _NOBODY
        self._not_found()
