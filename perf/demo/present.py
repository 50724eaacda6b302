"""The demo's result for people."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

__all__ = ["present"]


def present(console: Console, result: dict[str, Any]) -> None:
    for call in result["calls"]:
        latency = f"{call['turn_latency_ms']:.0f} ms" if call["turn_latency_ms"] else "-"
        console.print(
            f"\n[bold]{call['session_id']}[/bold] ({call['recording']}) on [bold]{call['runtime'] or 'no runtime'}[/bold]"
        )
        console.print(f"  chosen    {escape(call['reason'])}")
        console.print(f"  caller    {escape(call['transcript'])}")
        console.print(f"  agent     {escape(call['reply_text'])}")
        console.print(f"  answered  {latency} after the last word; {call['reply_seconds']:.1f} s of speech")
        if call["failure"]:
            console.print(f"  [red]failed    {escape(call['failure'])}[/red]")
    console.print()
    console.print(_distribution(result))
    console.print(_targets(result))
    ledger = result["ledger"]
    verdict = "the books balance" if ledger["balanced"] else "[red]the books do not balance[/red]"
    console.print(
        f"{ledger['attempted']} attempted - {ledger['refused']} refused = {ledger['started']} started; "
        f"{ledger['ended']} ended, {ledger['active']} active: {verdict}"
    )


def _distribution(result: dict[str, Any]) -> Table:
    table = Table("runtime", "sessions", "", title="sessions over runtimes", title_justify="left")
    for runtime, sessions in result["sessions_by_runtime"].items():
        note = f"{result['held']['calls']} of them held there directly" if runtime == result["held"]["runtime"] else ""
        table.add_row(runtime, f"{sessions:3d} " + "█" * sessions, note)
    return table


def _targets(result: dict[str, Any]) -> Table:
    table = Table("target", "value", "wanted", "", title="targets", title_justify="left")
    for target in result["targets"]:
        value = "-" if target["value"] is None else f"{target['value']:.3f}".rstrip("0").rstrip(".")
        table.add_row(
            target["name"], f"{value} {target['unit']}", target["target"], "met" if target["ok"] else "[red]missed[/red]"
        )
    return table
