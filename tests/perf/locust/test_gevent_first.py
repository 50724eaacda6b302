"""gevent replaces a process's sockets and threads: it is in the load generator's, and never in a test's."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import perf.locust.gevent_first
import socket, threading
from gevent import monkey
assert monkey.is_module_patched("socket") and monkey.is_module_patched("threading") and monkey.is_module_patched("selectors")
from grpc._cython import cygrpc
assert cygrpc.gevent_increment_channel_count is not None
print("patched")
"""


def test_no_test_process_holds_gevent() -> None:
    """All test modules are imported when this runs. A plugin or an import that brings it breaks asyncio in subtle ways."""
    assert not {"gevent", "locust"} & set(sys.modules)


def test_the_load_generator_is_patched_before_anything_else() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _PROGRAM], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.strip() == "patched", done.stderr
