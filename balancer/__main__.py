"""`python -m balancer`: settings from file, environment and flags, then serve. Exit 0 after a stop, 2 for what cannot work."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import anyio

from balancer.app.serve import serve
from balancer.app.settings import BalancerSettings
from balancer.telemetry.logs import make_logger
from runtime.primitives.errors import Fault, SettingError, VoiceError
from runtime.primitives.settings import from_command_line

PREFIX = "SWITCHBOARD_BALANCER"
_PROGRAM = "switchboard balancer"
_DESCRIPTION = "Places voice calls on runtimes and relays them: one public address in front of a fleet."


def main() -> int:
    try:
        settings = from_command_line(
            BalancerSettings, _PROGRAM, _DESCRIPTION, PREFIX, sys.argv[1:], os.environ, lambda path: Path(path).read_text()
        )
    except SettingError as error:
        print(f"{_PROGRAM}: {error}", file=sys.stderr)
        return 2
    log = make_logger(sys.stderr, settings.log_level)
    try:
        anyio.run(serve, settings, log, sys.stdout, backend_options={"use_uvloop": sys.platform != "win32"})
    except VoiceError as error:
        if error.fault is not Fault.ENVIRONMENT:
            raise
        print(f"{_PROGRAM}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
