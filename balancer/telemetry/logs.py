"""Structured logs, one JSON object a line. Nothing a caller said, no ticket and no query string is ever a field."""

from __future__ import annotations

import logging
from typing import TextIO

import structlog

__all__ = ["make_logger"]

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def make_logger(stream: TextIO, level: str) -> structlog.typing.FilteringBoundLogger:
    """A logger of its own: no global configuration is touched."""
    logger: structlog.typing.FilteringBoundLogger = structlog.wrap_logger(
        structlog.WriteLogger(stream),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
    )
    return logger
