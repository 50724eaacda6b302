"""A worker's own settings, derived from the supervisor's, as the command line that starts it."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

from runtime.app.settings import RuntimeSettings

__all__ = ["worker_command", "worker_settings"]


def worker_settings(settings: RuntimeSettings, machine_id: str, memory: Path, index: int) -> RuntimeSettings:
    """Worker `index` (from 0): an identity and ports of its own, an equal share of what the supervisor was given.

    A port that was chosen is the first worker's; the others follow it.
    """
    return dataclasses.replace(
        settings,
        workers=1,
        shard=index,
        leave_with_stdin=True,
        shared_memory=str(memory),
        machine_id=machine_id,
        runtime_id=f"{settings.runtime_id or machine_id}-{index + 1}",
        http_port=settings.http_port + index if settings.http_port else 0,
        grpc_port=settings.grpc_port + index if settings.grpc_port else 0,
        agent_check_port=settings.agent_check_port + index if settings.agent_check_port > 0 else settings.agent_check_port,
        cpu_share=settings.cpu_share / settings.workers,
    )


def worker_command(settings: RuntimeSettings) -> list[str]:
    """The command that starts a runtime with exactly these settings."""
    command = [sys.executable, "-m", "runtime"]
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        text = ",".join(value) if isinstance(value, tuple) else str(value)
        if value != field.default:
            command += [f"--{field.name.replace('_', '-')}={text}"]
    return command
