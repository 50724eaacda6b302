"""Structured logs: one JSON object a line on standard error. Nothing that a caller said, heard or typed ever goes in."""

from __future__ import annotations

import logging
import sys

import structlog
from structlog.typing import FilteringBoundLogger

__all__ = ["make_log"]


def make_log(level: str, **bound: object) -> FilteringBoundLogger:
    """A logger with these fields on every line. `level`: debug, info, warning, error."""
    logger: FilteringBoundLogger = structlog.wrap_logger(
        structlog.WriteLogger(sys.stderr),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
    )
    return logger.bind(**bound)
