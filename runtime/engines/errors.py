"""What engines raise on purpose: too much waiting work, a closed engine, a model that is not there."""

from __future__ import annotations

from typing import Final

from runtime.primitives.errors import Fault, VoiceError

__all__ = ["VOICE_EXTRA_FIX", "EngineBusy", "EngineClosed", "ModelUnavailable"]

VOICE_EXTRA_FIX: Final = "install the voice extra: pip install 'voice-switchboard[voice]'"


class EngineBusy(VoiceError):
    """The queue of waiting engine work is full; nothing was queued. Try later or elsewhere.

    Attributes:
        limit: how many jobs may wait.
    """

    code = "engine_busy"
    fault = Fault.CAPACITY
    retryable = True

    def __init__(self, engine: str, limit: int) -> None:
        self.engine = engine
        self.limit = limit
        super().__init__(f"{engine}: {limit} jobs are waiting already, which is the limit")


class EngineClosed(VoiceError):
    """The engine was closed before the job ran. Only a process that is ending sees it."""

    code = "engine_closed"
    fault = Fault.US

    def __init__(self, engine: str) -> None:
        self.engine = engine
        super().__init__(f"{engine} is closed")


class ModelUnavailable(VoiceError):
    """A model, or the package that runs it, is missing or not the one that was tested. The start stops.

    Attributes:
        model: the model's name.
        looked_for: the package or file that was looked for.
        problem: what was found instead.
    """

    code = "model_unavailable"
    fault = Fault.ENVIRONMENT

    def __init__(self, model: str, looked_for: str, problem: str, fix: str = VOICE_EXTRA_FIX) -> None:
        self.model = model
        self.looked_for = looked_for
        self.problem = problem
        self.fix = fix
        super().__init__(f"model {model}: looked for {looked_for}: {problem}; {fix}")
