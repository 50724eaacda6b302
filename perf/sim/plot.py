"""Pictures of results: max/mean with its interval, and refusals, by policy, a panel a scenario."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from perf.sim.matrix import Cell

__all__ = ["draw"]

_OURS, _IDEAL, _OTHER = "#d95f02", "#1b9e77", "#9a9ab0"


def draw(cells: Sequence[Cell], path: Path) -> None:
    """Writes a PNG."""
    import matplotlib  # half a second that other commands need not pay

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(cell.scenario for cell in cells))
    columns = min(3, len(names))
    rows = math.ceil(len(names) / columns)
    policies = len({cell.policy for cell in cells})
    figure, axes = plt.subplots(rows, columns, figsize=(6.0 * columns, (1.2 + 0.26 * policies) * rows), squeeze=False)
    for axis in axes.flat[len(names) :]:
        axis.axis("off")
    for name, axis in zip(names, axes.flat, strict=False):
        mine = sorted((cell for cell in cells if cell.scenario == name), key=lambda cell: -cell.values["max_over_mean"].mean)
        values = [cell.values["max_over_mean"] for cell in mine]
        widths = [0.0 if math.isnan(each.half_width) else each.half_width for each in values]
        colours = [_OURS if c.policy == "session_aware" else _IDEAL if c.policy == "ideal" else _OTHER for c in mine]
        axis.barh([cell.policy for cell in mine], [each.mean - 1.0 for each in values], left=1.0, xerr=widths, color=colours)
        for place, cell in enumerate(mine):
            refused = cell.values["refused"].mean
            if refused >= 0.0005:
                axis.annotate(
                    f"{100 * refused:.1f} % refused", (1.0, place), xytext=(3, -3), textcoords="offset points", fontsize=7
                )
        axis.set_title(name, fontsize=10)
        axis.set_xlabel("max/mean of load over capacity", fontsize=8)
        axis.tick_params(labelsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
