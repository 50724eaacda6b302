"""Draws what a soak saw over time: sessions of each runtime, measured utilisation, and each start-up."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from perf.locust.figures import FleetSample
from perf.locust.record import Outcome, SessionRecord

__all__ = ["draw_soak"]

_COLOURS = {Outcome.GOODBYE: "tab:green", Outcome.DISCONNECTED: "tab:blue", Outcome.REFUSED: "tab:red", Outcome.DROPPED: "black"}


def draw_soak(
    samples: Sequence[FleetSample], sessions: Sequence[SessionRecord], runtimes: Sequence[str], began_ns: int, file: Path
) -> None:
    """Writes a PNG; makes its folder."""
    import matplotlib as mpl  # of the dev extra, and slow to import

    mpl.use("Agg")  # no display
    from matplotlib import pyplot

    figure, (upper, middle, lower) = pyplot.subplots(3, 1, figsize=(10, 9), sharex=True)
    times_s = [sample.at_s for sample in samples]
    for name in runtimes:
        upper.step(times_s, [sample.active.get(name, 0) for sample in samples], where="post", label=name)
        middle.plot(times_s, [sample.utilisation.get(name, 0.0) for sample in samples], label=name)
    upper.set_ylabel("sessions")
    middle.axhline(0.8, color="grey", linestyle="--", linewidth=1, label="target")
    middle.set_ylabel("measured utilisation")
    for outcome, colour in _COLOURS.items():
        of_it = [session for session in sessions if session.outcome is outcome]
        if of_it:
            lower.scatter(
                [(session.asked_ns - began_ns) / 1e9 for session in of_it],
                [session.startup_ms or (session.ended_ns - session.asked_ns) / 1e6 for session in of_it],
                s=14,
                color=colour,
                label=f"{outcome.value} ({len(of_it)})",
            )
    lower.set(ylabel="start-up, ms", yscale="log", xlabel="seconds")
    for axis in (upper, middle, lower):
        axis.legend(loc="upper right", fontsize="small")
        axis.grid(alpha=0.3)
    figure.tight_layout()
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=110)
    pyplot.close(figure)
