"""TLS at the public ports: calls over it are relayed and outlive their runtime as others do. (requirement D1, decision 17)"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import grpc
import pytest
import trustme
from websockets.asyncio.client import ClientConnection, connect

from perf.fleet import LocalFleet, local_fleet
from protos.switchboard.v1 import assignment_pb2, assignment_pb2_grpc
from tests.support.tls import write_certificate

pytestmark = [pytest.mark.e2e, pytest.mark.anyio, pytest.mark.timeout(180)]

_RUNTIME = ["--engines", "synthetic", "--inflow-depth", "100", "--inflow-ramp-s", "0"]


@asynccontextmanager
async def _fleet(runtimes: int, folder: Path) -> AsyncIterator[tuple[LocalFleet, trustme.CA]]:
    authority = trustme.CA()
    certificate, key = write_certificate(authority, folder)
    balancer = ["--public-port", "0", "--operator-port", "0", "--control-port", "0", "--cold-allowance", "100"]
    balancer += ["--public-tls-certificate", str(certificate), "--public-tls-key", str(key), "--head-timeout-ms", "500"]
    async with local_fleet(runtimes, folder, balancer_arguments=balancer, runtime_arguments=_RUNTIME) as fleet:
        yield fleet, authority


@asynccontextmanager
async def _dialled(fleet: LocalFleet, authority: trustme.CA) -> AsyncIterator[ClientConnection]:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    assert fleet.call_url.startswith("wss://")
    async with connect(fleet.call_url, ssl=context, max_size=None) as client:
        yield client


async def _answered(client: ClientConnection, text: str) -> None:
    item = f'{{"type": "message", "role": "user", "content": [{{"type": "input_text", "text": "{text}"}}]}}'
    await client.send(f'{{"type": "conversation.item.create", "item": {item}}}')
    await client.send('{"type": "response.create"}')
    with anyio.fail_after(30):
        while '"response.done"' not in str(await client.recv()):
            pass


async def test_a_call_outlives_its_runtime(tmp_path: Path) -> None:  # requirement C3
    async with _fleet(2, tmp_path) as (fleet, authority), _dialled(fleet, authority) as client:
        await _answered(client, "hello")
        assert client.response is not None
        name = client.response.headers["x-switchboard-runtime"]
        (serving,) = [runtime for runtime in fleet.runtimes if runtime.ready["runtime_id"] == name]
        serving.kill()
        await _answered(client, "and now")
        await client.close()
        assert client.close_code == 1000
    log = (tmp_path / "balancer.log").read_text()
    assert "eof_received" not in log, "TLS has no half-closed connections"
    assert "Traceback" not in log


async def test_who_vanishes_or_speaks_no_tls_costs_nothing(tmp_path: Path) -> None:
    async with _fleet(1, tmp_path) as (fleet, authority):
        host, port = fleet.public.removeprefix("https://").split(":")
        async with _dialled(fleet, authority) as client:
            await _answered(client, "hello")
            client.transport.abort()
        for said in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", b""):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(said)
            with anyio.fail_after(20):  # who does not shake hands is let go
                try:
                    while await reader.read(1000):
                        pass
                except ConnectionResetError:
                    pass
            writer.close()
        with pytest.raises((ssl.SSLError, OSError)):
            async with connect(fleet.call_url):  # which does not trust it
                pass
        await fleet.wait_for("its end", lambda seen: seen["books"]["active"] == 0, 20)
        async with _dialled(fleet, authority) as client:
            await _answered(client, "still here")
            with socket.create_connection((host, int(port))) as half:
                context = ssl.create_default_context()
                authority.configure_trust(context)
                with context.wrap_socket(half, server_hostname="localhost") as plain:
                    plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
                    assert plain.recv(1000).startswith(b"HTTP/1.1 200")
            await client.close()
    assert "Traceback" not in (tmp_path / "balancer.log").read_text()


async def test_a_breach_is_told_over_tls_too(tmp_path: Path) -> None:
    async with _fleet(1, tmp_path) as (fleet, authority), _dialled(fleet, authority) as client:
        client.transport.write(b"\x81\x02no")
        with anyio.fail_after(20):
            await client.wait_closed()
        assert client.close_code == 1002


async def test_grpc_has_the_same_certificate(tmp_path: Path) -> None:
    async with _fleet(1, tmp_path) as (fleet, authority):
        roots = authority.cert_pem.bytes()
        address = str(fleet.balancer.ready["public_grpc"])
        async with grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(roots)) as channel:
            stub = assignment_pb2_grpc.AssignmentsStub(channel)
            assert (await stub.Assign(assignment_pb2.AssignRequest(), timeout=20)).ticket
        async with grpc.aio.insecure_channel(address) as channel:
            with pytest.raises(grpc.aio.AioRpcError):
                await assignment_pb2_grpc.AssignmentsStub(channel).Assign(assignment_pb2.AssignRequest(), timeout=1)
