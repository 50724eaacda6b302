"""The Python client over gRPC and TLS: the balancer's certificate is checked, and a runtime without one is reached through it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import anyio
import pytest
import trustme

from perf.fleet import local_fleet
from tests.support.tls import write_certificate

pytestmark = [pytest.mark.e2e, pytest.mark.anyio, pytest.mark.timeout(120)]

_CALL = """
import sys, anyio
from clients.call_events import ReplyDone
from clients.voice_call import Way, open_call

async def main():
    async with open_call(sys.argv[1], way=Way(sys.argv[2])) as call:
        await call.type("hello")
        async for event in call.events():
            if isinstance(event, ReplyDone):
                print(event.status)
                return

anyio.run(main)
"""


async def _run(address: str, way: str, roots: Path) -> tuple[int, str]:
    """In a process of its own: grpc reads the system's certificates once."""
    environment = {**os.environ, "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(roots)}
    command = [sys.executable, "-c", _CALL, f"grpcs://{address}", way]
    with anyio.fail_after(60):
        done = await anyio.run_process(command, check=False, env=environment)
    return done.returncode, (done.stdout + done.stderr).decode()


async def test_a_call_over_tls_either_way(tmp_path: Path) -> None:  # requirement D1, D2
    authority, stranger = trustme.CA(), trustme.CA()
    certificate, key = write_certificate(authority, tmp_path)
    roots, others = tmp_path / "roots.pem", tmp_path / "others.pem"
    authority.cert_pem.write_to_path(str(roots))
    stranger.cert_pem.write_to_path(str(others))
    balancer = ["--public-port", "0", "--operator-port", "0", "--control-port", "0"]
    balancer += ["--public-tls-certificate", str(certificate), "--public-tls-key", str(key)]
    runtime = ["--engines", "synthetic"]
    async with local_fleet(1, tmp_path, balancer_arguments=balancer, runtime_arguments=runtime) as fleet:
        address = str(fleet.balancer.ready["public_grpc"])
        for way in ("relay", "assign"):  # the runtime has no certificate: assigned, the call goes through the balancer in the end
            code, said = await _run(address, way, roots)
            assert (code, said.splitlines()[:1]) == (0, ["completed"]), said  # grpc adds lines of its own
        code, said = await _run(address, "relay", others)
        assert code == 1
        assert "cannot open a call" in said
