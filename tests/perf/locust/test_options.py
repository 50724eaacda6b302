"""What a soak can be told."""

from __future__ import annotations

import pytest

from perf.locust.options import SoakOptions, parse_options


def test_without_arguments_the_defaults_hold() -> None:
    assert parse_options([]) == SoakOptions()


def test_every_kind_of_value_arrives() -> None:
    numbers = ["--seconds", "12.5", "--users", "3", "--reply-ms-per-s", "7", "--idle-share", "0.5"]
    options = parse_options(["--json", "--policy", "random", "--plot", "a/b.png", *numbers])
    assert (options.json, options.seconds, options.users, options.policy) == (True, 12.5, 3, "random")
    assert (options.prices.reply_ms_per_s, options.habits.idle_share, str(options.plot)) == (7.0, 0.5, "a/b.png")
    assert options.prices.own_ms_per_s == 0.0


@pytest.mark.parametrize(("argument", "value"), [("--users", "0"), ("--seconds", "1"), ("--idle-share", "2")])
def test_nonsense_is_refused_by_name(argument: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_options([argument, value])
    assert ended.value.code == 2
    assert f"{argument} is {float(value):g}" in capsys.readouterr().err.replace(".0;", ";")


@pytest.mark.parametrize(
    "argument",
    [
        "--seconds=nan",
        "--cores=nan",
        "--speech-ms-per-s=-1",
        "--startup-ms=nan",
        "--reply-ms-per-s=inf",
        "--length-mean-s=1e300",
        "--length-sd-s=1e300",
        "--talk-s=nan",
        "--pause-s=0",
        "--idle-share=nan",
        "--policy=best",
        "--plot=out/soak.txt",
        "--plot=.",
    ],
)
def test_what_cannot_work_is_refused_with_the_flags_name(argument: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_options([argument])
    assert f"error: {argument.partition('=')[0]} is " in capsys.readouterr().err


def test_each_runtime_has_its_even_share() -> None:
    assert SoakOptions(cores=1.5, runtimes=3).runtime_cores == 0.5
