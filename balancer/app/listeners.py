"""The ports of a balancer: sockets that listen, and gRPC servers."""

from __future__ import annotations

import socket

import grpc

from runtime.primitives.errors import Fault, VoiceError
from runtime.wire.keepalive import probing

__all__ = ["PortUnavailable", "bind_grpc", "bracketed", "listen_on", "make_grpc"]

_OPTIONS = (
    *probing(10_000, 3_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
)


class PortUnavailable(VoiceError):
    code = "port_unavailable"
    fault = Fault.ENVIRONMENT

    def __init__(self, setting: str, host: str, port: int, cause: str) -> None:
        super().__init__(f"cannot listen on {host}:{port} ({setting}): {cause}")


def make_grpc(most_calls: int | None = None, most_bytes: int | None = None, *, is_shared: bool = False) -> grpc.aio.Server:
    """Not yet bound. `most_calls`: at a time; more are refused with RESOURCE_EXHAUSTED. `most_bytes`: of one message.
    `is_shared`: others may listen on the same port, and connections are spread over all; else a second one fails."""
    bound = () if most_bytes is None else (("grpc.max_receive_message_length", most_bytes),)
    options = (("grpc.so_reuseport", int(is_shared)), *_OPTIONS, *bound)
    return grpc.aio.server(options=options, maximum_concurrent_rpcs=most_calls)


def bind_grpc(
    server: grpc.aio.Server,
    setting: str,
    host: str,
    port: int,
    credentials: grpc.ServerCredentials | None = None,
    *,
    is_shared: bool = False,
) -> str:
    """Binds and answers host:port; without `credentials` it speaks no TLS. Raises PortUnavailable."""
    if port:
        # gRPC would print its own lines about a busy port; ours is the one to be read.
        _bound(setting, host, port, is_shared=is_shared).close()
    try:
        address = f"{bracketed(host)}:{port}"
        bound = server.add_insecure_port(address) if credentials is None else server.add_secure_port(address, credentials)
        return f"{bracketed(host)}:{bound}"
    except RuntimeError:
        raise PortUnavailable(setting, host, port, "it is in use or not ours") from None


def listen_on(setting: str, host: str, port: int, *, is_shared: bool = False) -> socket.socket:
    """`is_shared`: other processes of the same user may listen there too, and the kernel spreads connections over all of them
    (SO_REUSEPORT). Raises PortUnavailable."""
    listener = _bound(setting, host, port, is_shared=is_shared)
    try:
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise PortUnavailable(setting, host, port, error.strerror or str(error)) from None
    listener.setblocking(False)
    return listener


def _bound(setting: str, host: str, port: int, *, is_shared: bool) -> socket.socket:
    """Not listening yet: the kernel gives it no connection of those that share the port."""
    listener = None
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(address)
    except OSError as error:
        if listener is not None:
            listener.close()
        raise PortUnavailable(setting, host, port, error.strerror or str(error)) from None
    return listener


def bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
