"""Intents in the memory of this process: enough where a session never leaves it, and what tests use."""

from __future__ import annotations

from collections import OrderedDict

from runtime.dialogue.intents import Intent, IntentOutcome, IntentRecord, IntentState, StaleEpoch

__all__ = ["IntentMemory"]


class IntentMemory:
    """Holds the latest `limit` intents over all sessions that run, and their sessions' newest epochs; the oldest go first."""

    def __init__(self, limit: int = 10_000) -> None:
        if limit < 1:
            raise ValueError(f"limit is {limit}; allowed: 1 and up")
        self._limit = limit
        self._intents: OrderedDict[str, tuple[Intent, IntentOutcome | None]] = OrderedDict()
        self._epochs: OrderedDict[str, int] = OrderedDict()

    async def begin(self, intent: Intent) -> IntentRecord:
        """As the port."""
        self._check(intent)
        known = self._intents.get(intent.key)
        if known is not None and (known[0].tool, known[0].arguments_json) == (intent.tool, intent.arguments_json):
            outcome = known[1]
            return IntentRecord(IntentState.FINISHED, outcome) if outcome else IntentRecord(IntentState.UNKNOWN)
        self._keep(intent, None)
        return IntentRecord(IntentState.FRESH)

    async def finish(self, intent: Intent, outcome: IntentOutcome) -> None:
        """As the port."""
        self._check(intent)
        self._keep(intent, outcome)

    def forget(self, session_id: str) -> None:
        """As the port."""
        self._epochs.pop(session_id, None)
        for key in [key for key, (intent, _) in self._intents.items() if intent.session_id == session_id]:
            del self._intents[key]

    def _check(self, intent: Intent) -> None:
        newest = self._epochs.get(intent.session_id, 0)
        if intent.epoch < newest:
            raise StaleEpoch(intent.epoch, newest)
        self._epochs[intent.session_id] = intent.epoch
        self._epochs.move_to_end(intent.session_id)
        if len(self._epochs) > self._limit:
            self._epochs.popitem(last=False)

    def _keep(self, intent: Intent, outcome: IntentOutcome | None) -> None:
        self._intents[intent.key] = (intent, outcome)
        self._intents.move_to_end(intent.key)
        if len(self._intents) > self._limit:
            self._intents.popitem(last=False)
