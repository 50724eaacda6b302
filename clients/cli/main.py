"""The `switchboard` command. It starts the other programs as processes, and makes calls itself."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import anyio
import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape

from clients.cli.operators import OperatorRefused, ask_to_drain, ask_to_move
from clients.conversation import CallResult, speak_and_listen
from clients.realtime import RATE_HZ, CallFailed, connect
from clients.wav_files import AudioFileError, read_wav, write_wav

__all__ = ["main"]

_PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}

app = typer.Typer(
    name="switchboard",
    help="Real-time voice agents: runtimes that hold the calls, a balancer that places them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _become(module: str, arguments: list[str]) -> None:
    """Replaces this process by another program of the distribution, so that signals and exit status are its own."""
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", module, *arguments])


@app.command(context_settings=_PASS_ON)
def runtime(context: typer.Context) -> None:
    """Run one runtime: it answers calls over WebSocket and gRPC. (runtime --help lists its settings)"""
    _become("runtime", context.args)


@app.command(context_settings=_PASS_ON)
def balancer(context: typer.Context) -> None:
    """Run the balancer: one public address in front of the runtimes. (balancer --help lists its settings)"""
    _become("balancer", context.args)


@app.command(context_settings=_PASS_ON)
def demo(context: typer.Context) -> None:
    """Start a balancer and three runtimes, and call them with recorded human speech. (demo --help lists its options)"""
    _become("perf.demo", context.args)


@app.command(context_settings=_PASS_ON)
def sim(context: typer.Context) -> None:
    """Simulate fleets under the balancer's own router, or run a recorded log again. (sim --help lists its options)"""
    _become("perf.sim", context.args)


@app.command()
def call(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="WAV file to speak: PCM or float, mono or stereo, 8 to 192 kHz")],
    url: Annotated[
        str, typer.Option(help="where to call: a balancer or a runtime", envvar="SWITCHBOARD_URL")
    ] = "ws://127.0.0.1:8080/v1/realtime",
    agent: Annotated[str, typer.Option(help="whom to talk to; empty: the server's default agent")] = "",
    session_id: Annotated[str, typer.Option(help="name of the session; empty: the server makes one")] = "",
    output: Annotated[Path, typer.Option("--output", "-o", help="where the agent's audio goes (WAV, 24 kHz)")] = Path(
        "answer.wav"
    ),
    answer_within: Annotated[
        float, typer.Option(help="seconds to wait for a complete answer after the recording", min=1.0, max=600.0)
    ] = 60.0,
) -> None:
    """Speak a WAV file to an agent at real-time pace, print what happens live, and write the agent's audio to a file."""
    console = Console(highlight=False)
    try:
        samples = read_wav(file, RATE_HZ)
        result = anyio.run(_call, console, samples, url, agent, session_id, answer_within)
        write_wav(output, result.agent_samples, RATE_HZ)
    except (AudioFileError, CallFailed) as error:
        print(f"switchboard call: {error}", file=sys.stderr)
        raise typer.Exit(1) from None
    console.print(f"[dim]agent's audio: {output} ({len(result.agent_samples) / RATE_HZ:.1f} s)[/dim]")


_OPERATOR = typer.Option("--operator", help="the balancer's operator port", envvar="SWITCHBOARD_OPERATOR")


@app.command()
def drain(
    runtime_id: Annotated[str, typer.Argument(metavar="RUNTIME", help="id of an enrolled runtime")],
    operator: Annotated[str, _OPERATOR] = "http://127.0.0.1:8081",
) -> None:
    """Ask a runtime to leave: it takes nothing new, its calls go on at others, and its process ends when it is empty."""
    try:
        ask_to_drain(operator, runtime_id)
    except OperatorRefused as error:
        print(f"switchboard drain: {error}", file=sys.stderr)
        raise typer.Exit(1) from None
    print(f"{runtime_id} was asked to leave")


@app.command()
def move(
    session_id: Annotated[str, typer.Argument(metavar="SESSION", help="id of a live call")],
    to: Annotated[str, typer.Option(help="the runtime it is to go to; empty: any other")] = "",
    operator: Annotated[str, _OPERATOR] = "http://127.0.0.1:8081",
) -> None:
    """Move a live call to another runtime, in the middle of whatever is said; its caller notices nothing."""
    try:
        ask_to_move(operator, session_id, to)
    except OperatorRefused as error:
        print(f"switchboard move: {error}", file=sys.stderr)
        raise typer.Exit(1) from None
    print(f"{session_id} moves")


async def _call(
    console: Console, samples: NDArray[np.int16], url: str, agent: str, session_id: str, answer_within_s: float
) -> CallResult:
    started = anyio.current_time()

    def told(kind: str, text: str) -> None:
        at_s = anyio.current_time() - started
        console.print(f"[dim]{at_s:7.2f} s[/dim]  [bold]{kind:>8}[/bold]  {escape(text)}")

    async with connect(url, agent, session_id) as line:
        told("connects", f"session {line.session_id}" + (f" on {line.runtime_id}" if line.runtime_id else ""))
        return await speak_and_listen(line, samples, answer_within_s=answer_within_s, told=told)


def main() -> None:
    try:
        app()
    except BrokenPipeError:
        # Whoever read our output has gone; pointing it elsewhere keeps the interpreter's own last flush quiet.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


if __name__ == "__main__":
    main()
