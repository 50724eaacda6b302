"""A worker's own settings, derived from the supervisor's, as the command line that starts it."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from runtime.app.settings import ENVIRONMENT_PREFIX, RuntimeSettings
from runtime.primitives.ids import as_id_stem

__all__ = ["worker_command", "worker_environment", "worker_settings"]

_SECRETS: Final = ("twilio_auth_token", "ticket_keys")


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
        runtime_id=f"{settings.runtime_id or as_id_stem(machine_id)}-{index + 1}",
        http_port=settings.http_port + index if settings.http_port else 0,
        grpc_port=settings.grpc_port + index if settings.grpc_port else 0,
        agent_check_port=settings.agent_check_port + index if settings.agent_check_port > 0 else settings.agent_check_port,
        cpu_share=settings.cpu_share / settings.workers,
    )


def worker_command(settings: RuntimeSettings) -> list[str]:
    """The command that starts a runtime with exactly these settings: all are given, whatever the environment or a file say.

    Secrets are not: a command line can be read by everybody on the machine.
    """
    command = [sys.executable, "-m", "runtime"]
    for field in dataclasses.fields(settings):
        if field.name in _SECRETS:
            continue
        command.append(f"--{field.name.replace('_', '-')}={_text(getattr(settings, field.name))}")
    return command


def worker_environment(environment: Mapping[str, str], settings: RuntimeSettings) -> dict[str, str]:
    """A worker's environment: the supervisor's without its settings, which the command line says already, but for the secrets."""
    others = {name: value for name, value in environment.items() if not name.startswith(f"{ENVIRONMENT_PREFIX}_")}
    secrets = {f"{ENVIRONMENT_PREFIX}_{name.upper()}": _text(getattr(settings, name)) for name in _SECRETS}
    return others | secrets


def _text(value: object) -> str:
    return ",".join(value) if isinstance(value, tuple) else str(value)
