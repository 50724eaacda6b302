"""Where a drawing goes is looked at before a run, not after it: a run is not to be lost for its picture."""

from __future__ import annotations

import tempfile
from pathlib import Path

__all__ = ["check_plot"]


def check_plot(file: Path) -> None:
    """Makes the folder. Raises ValueError, beginning with "plot", where no PNG can be written there."""
    if file.suffix.lower() != ".png":
        raise ValueError(f"plot is {str(file)!r}; allowed: a file that ends in .png")
    if file.is_dir():
        raise ValueError(f"plot is {str(file)!r}; allowed: a file, and this is a folder")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("ab") if file.exists() else tempfile.TemporaryFile(dir=file.parent):
            pass
    except OSError as error:
        raise ValueError(f"plot is {str(file)!r}; allowed: a place that can be written to ({error.strerror})") from error
