"""Keeps the floor of one session: steps the turn table, and lets others wait until nobody has the floor."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from runtime.dialogue.turn_table import Action, Floor, Happening, next_turn

__all__ = ["FloorKeeper"]


class FloorKeeper:
    """`speaking` is told after every step whether one side speaks or a reply is being made."""

    def __init__(self, speaking: Callable[[bool], None]) -> None:
        self.floor = Floor.LISTENING
        self._speaking = speaking
        self._became_quiet = anyio.Event()

    def step(self, happening: Happening) -> Action:
        self.floor, action = next_turn(self.floor, happening)
        is_quiet = self.floor is Floor.LISTENING
        self._speaking(not is_quiet)
        if is_quiet:
            self._became_quiet.set()
        return action

    async def wait_until_quiet(self) -> None:
        """Returns when nobody speaks and no reply is on its way."""
        while self.floor is not Floor.LISTENING:
            self._became_quiet = anyio.Event()
            await self._became_quiet.wait()
