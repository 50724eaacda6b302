"""The command: its JSON, its status, and what it says of nonsense."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perf.sim.command import main

_SMALL = ["--runtimes", "6", "--balancers", "2", "--minutes", "0.5", "--warm-up", "20", "--seeds", "2", "--processes", "1"]


def test_one_object_with_targets_references_and_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "found.png"
    status = main(["--scenario", "steady", "--policy", "session_aware,random", "--json", "--plot", str(picture), *_SMALL])
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert status == (0 if found["ok"] else 1)
    assert found["ok"] == all(target["ok"] for target in found["targets"])
    assert [(each["scenario"], each["policy"]) for each in found["cells"]] == [
        ("steady", "ideal"), ("steady", "session_aware"), ("steady", "random"),
    ]  # fmt: skip
    assert found["references"]["steady"]["random_expectation"] > 1.0
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "of 6 runs" in printed.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--scenario", "weather"], "weather"),
        (["--policy", "best"], "best"),
        (["--seeds", "0"], "1 to 1000"),
        (["--minutes", "nan"], "0.1 to 600"),
        (["--plot", "x.txt"], ".png"),
        (["--plot", "/nowhere/x.png"], "folder"),
    ],
)
def test_nonsense_is_refused_before_anything_runs(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([*arguments, *_SMALL] if "--seeds" not in arguments else arguments)
    assert left.value.code == 2
    assert words in capsys.readouterr().err
