"""The ports of a balancer: sockets that listen, and gRPC servers."""

from __future__ import annotations

import socket

import grpc

from runtime.primitives.errors import Fault, VoiceError
from runtime.wire.keepalive import probing

__all__ = ["PortUnavailable", "bind_grpc", "bracketed", "listen_on", "make_grpc"]

_OPTIONS = (
    ("grpc.so_reuseport", 0),  # a second balancer on the same port must fail, not share it
    *probing(10_000, 3_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
)


class PortUnavailable(VoiceError):
    code = "port_unavailable"
    fault = Fault.ENVIRONMENT

    def __init__(self, setting: str, host: str, port: int, cause: str) -> None:
        super().__init__(f"cannot listen on {host}:{port} ({setting}): {cause}")


def make_grpc(most_calls: int | None = None, most_bytes: int | None = None) -> grpc.aio.Server:
    """Not yet bound. `most_calls`: at a time; more are refused with RESOURCE_EXHAUSTED. `most_bytes`: of one message."""
    bound = () if most_bytes is None else (("grpc.max_receive_message_length", most_bytes),)
    return grpc.aio.server(options=(*_OPTIONS, *bound), maximum_concurrent_rpcs=most_calls)


def bind_grpc(server: grpc.aio.Server, setting: str, host: str, port: int) -> str:
    """Binds and answers host:port. Raises PortUnavailable."""
    if port:
        # gRPC would print its own lines about a busy port; ours is the one to be read.
        listen_on(setting, host, port).close()
    try:
        return f"{bracketed(host)}:{server.add_insecure_port(f'{bracketed(host)}:{port}')}"
    except RuntimeError:
        raise PortUnavailable(setting, host, port, "it is in use or not ours") from None


def listen_on(setting: str, host: str, port: int) -> socket.socket:
    """Raises PortUnavailable."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(1024)
        listener.setblocking(False)
    except OSError as error:
        raise PortUnavailable(setting, host, port, error.strerror or str(error)) from None
    return listener


def bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
