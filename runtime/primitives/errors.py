"""The one root of the errors that Switchboard raises on purpose: whose fault, whether to retry, a stable code."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Fault", "SettingError", "VoiceError"]


class Fault(StrEnum):
    """Who has to change something for the error to go away."""

    PEER = "peer"
    US = "us"
    CAPACITY = "capacity"
    ENVIRONMENT = "environment"


class VoiceError(Exception):
    """Root of all errors that carry meaning for a caller.

    Subclasses set `code` (stable, snake case), `fault` and `retryable`, keep the facts as attributes and compose the
    message from them. A message never holds anything that a caller said, heard or typed.
    """

    code: str = "internal_error"
    fault: Fault = Fault.US
    retryable: bool = False


class SettingError(VoiceError):
    """A setting is unknown or impossible. The start stops with its name, value and allowed range."""

    code = "invalid_setting"
    fault = Fault.ENVIRONMENT

    def __init__(self, name: str, value: object, allowed: str) -> None:
        self.name = name
        self.value = value
        self.allowed = allowed
        super().__init__(f"setting {name!r} is {value!r}; allowed: {allowed}")
