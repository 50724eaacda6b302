"""What the front desk remembers of a call between turns, in the turn's memory. Pure."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Final

from runtime.dialogue.agent import Json
from runtime.engines.front_desk.booking import Booking

__all__ = ["Notes"]

_KEY: Final = "front_desk"


@dataclass(slots=True)
class Notes:
    """Attributes:
    booking: the booking in progress.
    booking_before: the one that was in progress when the caller's utterance began, to start from again if it goes on.
    records: what tools recorded for this utterance, reference by tool name; an utterance that goes on replaces them.
    """

    booking: Booking | None = None
    booking_before: Booking | None = None
    records: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, memory: Mapping[str, Json]) -> Notes:
        """Empty where there are none, or none that this version understands."""
        noted = memory.get(_KEY)
        if not isinstance(noted, dict):
            return cls()
        records = noted.get("records")
        return cls(
            Booking.from_json(noted.get("booking")),
            Booking.from_json(noted.get("booking_before")),
            {name: str(reference) for name, reference in records.items()} if isinstance(records, dict) else {},
        )

    def write(self, memory: MutableMapping[str, Json]) -> None:
        memory[_KEY] = {
            "booking": self.booking.to_json() if self.booking else None,
            "booking_before": self.booking_before.to_json() if self.booking_before else None,
            "records": dict(self.records),
        }

    def begin(self, *, is_continued: bool) -> None:
        """A new utterance, or the same one that goes on: then what it did to the booking is forgotten."""
        if is_continued:
            self.booking = self.booking_before
        else:
            self.booking_before = self.booking
            self.records.clear()
