"""What a runtime says of itself when it enrolls, checked field by field."""

from __future__ import annotations

from dataclasses import dataclass

from balancer.routing.version import Version, parse_version
from runtime.primitives.errors import Fault, VoiceError
from runtime.primitives.ids import is_runtime_id, is_session_id
from runtime.primitives.load_snapshot import CostClass, RuntimeState

__all__ = ["BadRegistration", "Leg", "Registration", "SdkTooOld", "check_sdk_version", "parse_address"]

Leg = tuple[str, int]
"""(session_id, epoch)."""


class BadRegistration(VoiceError):
    """A field of an enrolment is out of range."""

    code = "bad_registration"
    fault = Fault.PEER

    def __init__(self, field: str, value: object, allowed: str) -> None:
        self.field = field
        super().__init__(f"register.{field} is {value!r}; allowed: {allowed}")


class SdkTooOld(VoiceError):
    code = "sdk_too_old"
    fault = Fault.PEER

    def __init__(self, sdk_version: str, min_sdk_version: str) -> None:
        super().__init__(
            f"register.sdk_version {sdk_version!r} is older than min_sdk_version {min_sdk_version!r} of this balancer; "
            "upgrade voice-switchboard on the runtime"
        )


def parse_address(text: str) -> tuple[str, int] | None:
    """host:port; an IPv6 host stands in brackets.

    >>> parse_address("127.0.0.1:80"), parse_address("[::1]:9"), parse_address("host"), parse_address("a:0")
    (('127.0.0.1', 80), ('::1', 9), None, None)
    """
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or not 1 <= int(port) <= 65535:
        return None
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        return None
    return (host, int(port)) if host and not any(c.isspace() or c in "/@?#[]" for c in host) else None


@dataclass(frozen=True, slots=True)
class Registration:
    """The standing facts of one runtime life. Raises BadRegistration, which names the field."""

    runtime_id: str
    incarnation: int
    websocket_address: str
    grpc_address: str
    hard_limit: int
    state: RuntimeState = RuntimeState.STARTING
    machine_id: str = ""
    region: str = ""
    abilities: frozenset[str] = frozenset()
    agents: frozenset[str] = frozenset()
    version: str = "0"
    sdk_version: str = "0"
    cost_class: CostClass = CostClass.OWNED
    live: tuple[Leg, ...] = ()
    ledger_version: int = 0

    def __post_init__(self) -> None:
        if not is_runtime_id(self.runtime_id):
            raise BadRegistration("runtime_id", self.runtime_id[:80], "1-64 characters of [a-z0-9-], the first no hyphen")
        if self.incarnation < 1:
            raise BadRegistration("incarnation", self.incarnation, "1 and up")
        for field, address in (("websocket_address", self.websocket_address), ("grpc_address", self.grpc_address)):
            if parse_address(address) is None:
                raise BadRegistration(field, address[:80], "host:port")
        if not 1 <= self.hard_limit <= 100_000:
            raise BadRegistration("hard_limit", self.hard_limit, "1-100000")
        for field, text in (("version", self.version), ("sdk_version", self.sdk_version)):
            if parse_version(text) is None:
                raise BadRegistration(field, text[:80], "dotted integers")
        for session_id, epoch in self.live:
            if not is_session_id(session_id) or epoch < 1:
                raise BadRegistration("live", f"{session_id[:80]}/{epoch}", "session ids with epochs from 1")

    @property
    def comparable_version(self) -> Version:
        return parse_version(self.version) or ()


def check_sdk_version(registration: Registration, min_sdk_version: str) -> None:
    """Raises SdkTooOld, which names both versions."""
    if (parse_version(registration.sdk_version) or ()) < (parse_version(min_sdk_version) or ()):
        raise SdkTooOld(registration.sdk_version, min_sdk_version)
