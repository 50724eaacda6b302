"""Makes the standard library and gRPC cooperate with gevent. Imported before anything that opens a socket or a channel.

Importing `locust` patches the standard library (its documentation); gRPC's own support is switched on after that and before any
gRPC object is made (gRPC's documentation, and Locust's on other protocols). Blocking clients then wait without blocking others.
"""

from __future__ import annotations

import locust  # noqa: F401  # patches on import

# isort: split

import grpc.experimental.gevent as grpc_gevent

__all__: list[str] = []

grpc_gevent.init_gevent()
