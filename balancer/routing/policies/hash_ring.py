"""A ring of virtual nodes: where a session id belongs, and where next, while runtimes come and go."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["HashRing", "hash_of"]

_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)
_MIX_1: Final = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2: Final = np.uint64(0x94D049BB133111EB)


def hash_of(text: str) -> int:
    """64 bits, the same in every process and version."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


class HashRing:
    """Each member owns `virtual_nodes` points; a key belongs to the next point clockwise. Adding one of n members moves about
    1/n of the keys, all of them to it; removing one moves its own alone."""

    def __init__(self, virtual_nodes: int) -> None:
        if not 1 <= virtual_nodes <= 100_000:
            raise ValueError(f"virtual_nodes is {virtual_nodes}; allowed: 1 to 100000")
        self._virtual_nodes = virtual_nodes
        self._points: NDArray[np.uint64] = np.zeros(0, np.uint64)
        self._owners: NDArray[np.int64] = np.zeros(0, np.int64)
        self._members: dict[str, int] = {}

    def set(self, members: dict[str, int]) -> None:
        """The members by name, each with the number that `walk` gives for it."""
        if members == self._members:
            return
        gone = [number for name, number in self._members.items() if members.get(name) != number]
        new = {name: number for name, number in members.items() if self._members.get(name) != number}
        points, owners = self._points, self._owners
        if gone:
            stays = ~np.isin(owners, gone)
            points, owners = points[stays], owners[stays]
        if new:
            added = np.concatenate([self._points_of(name) for name in new])
            added_owners = np.repeat(np.fromiter(new.values(), np.int64, len(new)), self._virtual_nodes)
            order = added.argsort()
            added, added_owners = added[order], added_owners[order]
            places = points.searchsorted(added)
            points, owners = np.insert(points, places, added), np.insert(owners, places, added_owners)
        self._points, self._owners = points, owners
        self._members = dict(members)

    def walk(self, key: str) -> Iterator[int]:
        """Distinct members, from the key's own on clockwise."""
        size = self._points.shape[0]
        start = int(self._points.searchsorted(np.uint64(hash_of(key)))) if size else 0
        seen: set[int] = set()
        for step in range(size):
            owner = int(self._owners[(start + step) % size])
            if owner not in seen:
                seen.add(owner)
                yield owner
                if len(seen) == len(self._members):
                    return

    def _points_of(self, name: str) -> NDArray[np.uint64]:
        """splitmix64 from the name's hash on."""
        with np.errstate(over="ignore"):
            z = np.uint64(hash_of(name)) + _GOLDEN * np.arange(1, self._virtual_nodes + 1, dtype=np.uint64)
            z = (z ^ (z >> np.uint64(30))) * _MIX_1
            z = (z ^ (z >> np.uint64(27))) * _MIX_2
            return z ^ (z >> np.uint64(31))
