"""Names of the headers and metadata keys that Switchboard's own processes and clients exchange."""

from __future__ import annotations

from typing import Final

__all__ = [
    "EPOCH_HEADER",
    "ORCA_TRAILER",
    "RECEIVED_HEADER",
    "REFUSAL_BIN_TRAILER",
    "REFUSAL_REASON_HEADER",
    "RESUME_HEADER",
    "RESUME_KEY_HEADER",
    "RETRY_AFTER_MS_HEADER",
    "RUNTIME_HEADER",
    "SESSION_HEADER",
    "TENANT_HEADER",
    "TICKET_HEADER",
]

TICKET_HEADER: Final = "x-switchboard-ticket"
"""A one-use place at a runtime, from `Reserve` or from an assignment."""
SESSION_HEADER: Final = "x-switchboard-session"
"""The session id. To us: the caller's wish; from us: the id in force."""
RESUME_HEADER: Final = "x-switchboard-resume"
"""A client's token for the session whose connection it lost."""
RESUME_KEY_HEADER: Final = "x-switchboard-resume-key"
"""A gRPC caller's own key to a relayed call that it may lose its connection to; on WebSocket it is in the query."""
RECEIVED_HEADER: Final = "x-switchboard-received"
"""With that key: how many messages of the call the caller has; in the answer, how many of the caller's came."""
TENANT_HEADER: Final = "x-switchboard-tenant"
"""Whose session it is. Believed: who asks for keys of its callers stands in front of us, and sets or removes it."""
EPOCH_HEADER: Final = "x-switchboard-epoch"
ORCA_TRAILER: Final = "endpoint-load-metrics-bin"
"""gRPC's standard trailer: a serialised ORCA report at the end of a stream."""
RUNTIME_HEADER: Final = "x-switchboard-runtime"
"""From us on an accepted upgrade: the runtime that serves the call."""
REFUSAL_BIN_TRAILER: Final = "refusal-bin"
"""A serialised `AssignmentRefusal`."""
REFUSAL_REASON_HEADER: Final = "refusal-reason"
RETRY_AFTER_MS_HEADER: Final = "retry-after-ms"
