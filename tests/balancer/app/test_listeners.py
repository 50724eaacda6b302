"""Ports that are shared, and ports that are not."""

from __future__ import annotations

import pytest

from balancer.app.listeners import PortUnavailable, bind_grpc, listen_on, make_grpc


def test_relays_share_a_port_and_nobody_else_joins_them() -> None:
    first = listen_on("public_port", "127.0.0.1", 0, is_shared=True)
    port = first.getsockname()[1]
    second = listen_on("public_port", "127.0.0.1", port, is_shared=True)
    with first, second:
        assert second.getsockname()[1] == port
        with pytest.raises(PortUnavailable, match=f"127.0.0.1:{port} .public_port.: Address already in use"):
            listen_on("public_port", "127.0.0.1", port)


def test_a_port_that_is_not_shared_is_one_process_own() -> None:
    with listen_on("public_port", "127.0.0.1", 0) as first, pytest.raises(PortUnavailable):
        listen_on("public_port", "127.0.0.1", first.getsockname()[1], is_shared=True)


@pytest.mark.anyio
async def test_grpc_ports_are_shared_alike() -> None:
    servers = [make_grpc(is_shared=True), make_grpc(is_shared=True), make_grpc()]
    port = int(bind_grpc(servers[0], "public_grpc_port", "127.0.0.1", 0, is_shared=True).rpartition(":")[2])
    assert bind_grpc(servers[1], "public_grpc_port", "127.0.0.1", port, is_shared=True) == f"127.0.0.1:{port}"
    with pytest.raises(PortUnavailable):
        bind_grpc(servers[2], "public_grpc_port", "127.0.0.1", port)
    for server in servers:
        await server.stop(None)
