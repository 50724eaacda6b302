"""The fault lab: `python -m perf.faults sessions --seed S --json`."""

from __future__ import annotations

import argparse
import json
import socket
import sys

import anyio

from perf.faults.sessions import run


def _free_ports(count: int) -> int:
    """The first of `count` ports in a row that are free now: workers keep theirs over a restart."""
    for _ in range(200):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            first = int(probe.getsockname()[1])
        held = []
        try:
            for port in range(first, first + count):
                held.append(socket.socket())
                held[-1].bind(("127.0.0.1", port))
        except OSError:
            continue
        else:
            return first
        finally:
            for each in held:
                each.close()
    raise OSError(f"no {count} free ports in a row")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m perf.faults", description="Breaks what it runs, and counts what is left.")
    parser.add_argument("scenario", choices=["sessions"], help="sessions: connections ended in every way")
    parser.add_argument("--connections", type=int, default=20_000, help="[default: 20000]")
    parser.add_argument("--kills", type=int, default=3, help="kill -9 of a worker, so many times [default: 3]")
    parser.add_argument("--seed", type=int, default=1, help="the same seed makes the same plan [default: 1]")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    arguments = parser.parse_args()
    if not 1 <= arguments.connections <= 200_000 or not 0 <= arguments.kills <= 100:
        parser.error("--connections; allowed: 1 to 200000. --kills; allowed: 0 to 100")
    first = _free_ports(4)
    result = anyio.run(run, arguments.connections, arguments.kills, arguments.seed, (first, first + 2))
    print(json.dumps(result) if arguments.json else json.dumps(result, indent=1))
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
