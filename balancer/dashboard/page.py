"""The live page: one file beside this module, read once, nothing loaded from elsewhere."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

__all__ = ["PAGE"]

PAGE: Final = files("balancer.dashboard").joinpath("page.html").read_text(encoding="utf-8")
