"""The instants of one turn, from which its latency follows."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.conversation.ports import TurnLatency
from runtime.primitives.clock import NS_PER_MS

__all__ = ["TurnClock"]


@dataclass(slots=True)
class TurnClock:
    """Nanoseconds on the process's clock; 0 where something has not happened yet."""

    voiced_until_ns: int
    decided_ns: int
    transcript_ns: int = 0
    first_text_ns: int = 0

    def measured(self, first_audio_ns: int) -> TurnLatency:
        """The latency of a turn whose first audio leaves at `first_audio_ns`."""
        return TurnLatency(
            self._since(self.decided_ns),
            self._since(self.transcript_ns),
            self._since(self.first_text_ns),
            self._since(first_audio_ns),
        )

    def _since(self, instant_ns: int) -> float:
        return max(0, instant_ns - self.voiced_until_ns) / NS_PER_MS
