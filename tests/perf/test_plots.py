"""A picture that could not be written is refused before the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from perf.plots import check_plot


def test_a_new_folder_is_made_and_nothing_is_left_in_it(tmp_path: Path) -> None:
    check_plot(tmp_path / "new" / "soak.png")
    assert list((tmp_path / "new").iterdir()) == []


def test_an_earlier_drawing_stays_until_it_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "soak.png"
    file.write_bytes(b"before")
    check_plot(file)
    assert file.read_bytes() == b"before"


def test_what_cannot_be_written_is_refused_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.png").mkdir()
    for bad in (tmp_path / "soak.svg", tmp_path / "soak", tmp_path / "file" / "soak.png", tmp_path / "folder.png"):
        with pytest.raises(ValueError, match=r"plot is .*; allowed: "):
            check_plot(bad)
    with pytest.raises(ValueError, match="plot is"):
        check_plot(Path("/proc/soak.png"))
