"""What a soak can be told on its command line."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from balancer.routing.policies import POLICIES
from perf.locust.committed import Prices
from perf.locust.plan import Habits
from perf.plots import check_plot

__all__ = ["SoakOptions", "parse_options"]

_PRICES: Final = Prices(speech_ms_per_s=40.0, silence_ms_per_s=25.0, reply_ms_per_s=30.0, startup_ms=20.0)
"""About 0.045 cores a talking session: more than the runtime's own work, so that what is stated decides what is too much."""
_HABITS: Final = Habits()
_PRICE_NAMES: Final = ("speech_ms_per_s", "silence_ms_per_s", "reply_ms_per_s", "startup_ms")
_DEAREST_MS: Final = 10_000.0
"""As the runtime's own settings have it."""


@dataclass(frozen=True, slots=True)
class SoakOptions:
    """Raises ValueError for what cannot work.

    Attributes:
        seconds: how long callers come; users: how many at a time; grpc_share: of them over gRPC.
        cores: what all runtimes together may use; each has its even share.
        policy: the balancer's, by its name there.
        prices, jitter, seed: of the synthetic engines; the seed also draws what callers do.
    """

    seconds: float = 60.0
    users: int = 10
    grpc_share: float = 0.3
    runtimes: int = 3
    cores: float = 1.5
    hard_limit: int = 32
    frame_ms: int = 60
    policy: str = "session_aware"
    seed: int = 1
    jitter: float = 0.2
    prices: Prices = _PRICES
    habits: Habits = _HABITS
    plot: Path = Path("out/soak.png")
    json: bool = False

    def __post_init__(self) -> None:
        for name, least, most in (
            ("seconds", 3, 3600),
            ("users", 1, 200),
            ("grpc_share", 0, 1),
            ("runtimes", 1, 16),
            ("cores", 0.05, 256),
            ("hard_limit", 1, 100_000),
            ("frame_ms", 10, 200),
            ("seed", 0, 1_000_000),
            ("jitter", 0, 1),
        ):
            if not least <= getattr(self, name) <= most:  # which NaN is not
                raise ValueError(f"{name} is {getattr(self, name)}; allowed: {least} to {most}")
        for name in _PRICE_NAMES:
            if not 0.0 <= getattr(self.prices, name) <= _DEAREST_MS:
                raise ValueError(f"{name} is {getattr(self.prices, name)}; allowed: 0 to {_DEAREST_MS:g}")
        if self.policy not in POLICIES:
            raise ValueError(f"policy is {self.policy!r}; allowed: {', '.join(POLICIES)}")
        check_plot(self.plot)

    @property
    def runtime_cores(self) -> float:
        return self.cores / self.runtimes


_PLAIN = {
    "seconds": "how long callers come",
    "users": "callers at a time",
    "grpc_share": "of them over gRPC",
    "runtimes": "how many",
    "cores": "what all runtimes together may use",
    "hard_limit": "sessions at most, of each runtime",
    "frame_ms": "audio in a message",
    "policy": "the balancer's way to choose",
    "seed": "of what callers do and of the jitter",
    "jitter": "of the synthetic costs",
}


def parse_options(arguments: list[str] | None = None) -> SoakOptions:
    """Ends the program with a sentence where a value makes no sense."""
    defaults = SoakOptions()
    parser = argparse.ArgumentParser(
        prog="python -m perf.locust.soak",
        description="A local fleet on synthetic engines under Locust callers, and whether all counters return to zero.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    parser.add_argument("--plot", type=Path, default=defaults.plot, metavar="FILE.png", help="where the drawing goes")
    for name, meaning in _PLAIN.items():
        default = getattr(defaults, name)
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default, help=meaning)
    for name in _PRICE_NAMES:
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=float, default=getattr(defaults.prices, name), help="synthetic cost, CPU ms"
        )
    for field in fields(Habits):
        parser.add_argument(
            f"--{field.name.replace('_', '-')}", type=float, default=field.default, help="of callers (perf/locust/plan.py)"
        )
    read = parser.parse_args(arguments)
    try:
        return SoakOptions(
            **{name: getattr(read, name) for name in _PLAIN},
            prices=Prices(**{name: getattr(read, name) for name in _PRICE_NAMES}),
            habits=Habits(**{field.name: getattr(read, field.name) for field in fields(Habits)}),
            plot=read.plot,
            json=read.json,
        )
    except ValueError as error:
        name, _, rest = str(error).partition(" ")
        parser.error(f"--{name.replace('_', '-')} {rest}")
