"""The keys with which a runtime checks tickets: its own setting's, or those that its balancers told it when it enrolled."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final

from runtime.wire.signed_tickets import TicketKey

__all__ = ["KeyRing"]

_LIVES: Final = 2
"""Of each balancer: tickets that it gave before it was started anew are still good."""
_MOST_BALANCERS: Final = 64


class KeyRing:
    """Keys by id. Where some were configured, none is learnt: then nobody but who knows them can let a caller in.

    With no key at all a ticket is the place's bare name, as runtimes give it to balancers that know nothing of keys.
    """

    def __init__(self, configured: Sequence[TicketKey] = ()) -> None:
        self._configured = {key.key_id: key for key in configured}
        self._told: OrderedDict[str, list[tuple[TicketKey, ...]]] = OrderedDict()
        self._keys: dict[str, TicketKey] = dict(self._configured)

    @property
    def keys(self) -> Mapping[str, TicketKey]:
        return self._keys

    @property
    def ids(self) -> list[str]:
        """One of these has to seal a ticket that is to open something here; none: tickets are not sealed."""
        return list(self._keys)

    def told(self, balancer_id: str, keys: Sequence[TicketKey]) -> None:
        """A balancer has told its keys; those of its life before this one hold on."""
        if self._configured or not keys:
            return
        lives = self._told.setdefault(balancer_id, [])
        self._told.move_to_end(balancer_id)
        if not lives or lives[-1] != tuple(keys):
            lives.append(tuple(keys))
            del lives[:-_LIVES]
        while len(self._told) > _MOST_BALANCERS:
            self._told.popitem(last=False)
        self._keys = {key.key_id: key for lives in self._told.values() for life in lives for key in life}
