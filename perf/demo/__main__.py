"""`python -m perf.demo`: the main job on real parts. One balancer, three runtimes, real recorded speech, real answers."""

from __future__ import annotations

import argparse
import json
import signal
import socket
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import anyio
from rich.console import Console

from clients.wav_files import AudioFileError
from perf.demo.calls import make_calls
from perf.demo.present import present
from perf.demo.report import report
from perf.demo.script import OWN_RECORDINGS, Recording, read_recordings
from perf.fleet import LocalFleet, local_fleet
from perf.processes import ProgramFailed
from runtime.engines.errors import ModelUnavailable

_RUNTIMES: Final = 3
_COLD_ALLOWANCE: Final = 8


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="switchboard demo",
        description="Starts one balancer and three runtimes, calls them with recorded human speech, and shows what came of it.",
    )
    parser.add_argument("--once", action="store_true", help="end after the calls instead of staying up until Ctrl-C")
    parser.add_argument(
        "--json", action="store_true", help="one JSON object on standard output; exit status 1 if a target is missed"
    )
    parser.add_argument(
        "--wav", type=Path, default=OWN_RECORDINGS, metavar="DIR", help="other recordings: NAME.wav with its reference NAME.txt"
    )
    parser.add_argument(
        "--port", type=int, default=None, help="public port [default: 8080, with --once one that the system chooses]"
    )
    parser.add_argument("--operator-port", type=int, default=None, help="dashboard's port [default: 8081, with --once chosen]")
    arguments = parser.parse_args()
    for name, default in (("port", 8080), ("operator_port", 8081)):
        if getattr(arguments, name) is None:
            setattr(arguments, name, 0 if arguments.once else default)
        if not 0 <= getattr(arguments, name) <= 65535:
            parser.error(f"--{name.replace('_', '-')} is {getattr(arguments, name)}; allowed: 0 to 65535")
    return arguments


async def _demo(
    arguments: argparse.Namespace, recordings: list[Recording], screen: Console, logs: Path, results: list[dict[str, Any]]
) -> None:
    """Shows the result and puts it into `results` as soon as the calls are over."""

    def told(text: str) -> None:
        screen.print(f"[dim]demo:[/dim] {text}")

    balancer_arguments = [
        *("--public-port", str(arguments.port)),
        *("--operator-port", str(arguments.operator_port)),
        *("--control-port", "0"),
        *("--cold-allowance", str(_COLD_ALLOWANCE)),
    ]
    async with local_fleet(_RUNTIMES, logs, balancer_arguments=balancer_arguments, runtime_arguments=[], told=told) as fleet:
        run = await make_calls(fleet, recordings, told)
        told("listening to the replies with the same recogniser")
        result = await report(run)
        results.append(result)
        if arguments.json:
            sys.stdout.write(json.dumps(result) + "\n")
            sys.stdout.flush()
        else:
            present(Console(highlight=False), result)
        if not arguments.once:
            await _stay_up(fleet, screen)


async def _stay_up(fleet: LocalFleet, screen: Console) -> None:
    screen.print(
        f"\nopen [bold]{fleet.operator}/[/bold] to watch; call in with\n"
        f"  switchboard call FILE.wav --url {fleet.call_url}\n"
        f"or point an OpenAI Realtime client at {fleet.public.replace('http', 'ws')}/v1. Ctrl-C ends it."
    )
    await anyio.sleep_forever()


async def _until_told(
    arguments: argparse.Namespace, recordings: list[Recording], screen: Console, logs: Path
) -> list[dict[str, Any]]:
    """Runs the demo until it is over or a signal ends it, in order. Answers its result, if it came so far."""
    results: list[dict[str, Any]] = []
    failures: list[Exception] = []
    async with anyio.create_task_group() as group:

        async def obey_signals() -> None:
            with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
                async for _ in signals:
                    group.cancel_scope.cancel()

        group.start_soon(obey_signals)
        try:
            await _demo(arguments, recordings, screen, logs, results)
        except (ProgramFailed, ModelUnavailable, OSError) as error:
            failures.append(error)
        group.cancel_scope.cancel()
    if failures:
        raise failures[0]
    return results


def main() -> int:
    arguments = _arguments()
    screen = Console(stderr=True, highlight=False)
    reason = "ended by a signal before its calls were over"
    try:
        recordings = read_recordings(arguments.wav)
        _need_free_ports(arguments)
        with tempfile.TemporaryDirectory(prefix="switchboard-demo-") as logs:
            results = anyio.run(_until_told, arguments, recordings, screen, Path(logs))
        if results:
            return 0 if results[0]["ok"] else 1
    except (AudioFileError, ProgramFailed, ModelUnavailable, OSError) as error:
        reason = str(error)
    message = " ".join(reason.split())
    print(f"demo: {message}", file=sys.stderr)
    if arguments.json:
        print(json.dumps({"ok": False, "reason": message, "targets": [], "calls": []}))
    return 1


def _need_free_ports(arguments: argparse.Namespace) -> None:
    """Says at once, before anything is started, that a port is taken. Raises OSError."""
    for name, port in (("--port", arguments.port), ("--operator-port", arguments.operator_port)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError as error:
                raise OSError(f"port {port} is taken ({error.strerror}); choose another with {name}") from error


if __name__ == "__main__":
    sys.exit(main())
