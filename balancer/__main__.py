"""`python -m balancer`: settings from file, environment and flags, then serve. Exit 0 after a stop, 2 for what cannot work."""

from __future__ import annotations

import os
import sys
import tomllib

import anyio

from balancer.app.serve import serve
from balancer.app.settings import BalancerSettings
from balancer.telemetry.logs import make_logger
from runtime.primitives.errors import Fault, SettingError, VoiceError
from runtime.primitives.settings import environment_layer, flag_parser, resolve

PREFIX = "SWITCHBOARD_BALANCER"


def read_settings(arguments: list[str], environment: dict[str, str]) -> BalancerSettings:
    """Raises SettingError, or OSError and TOMLDecodeError for the file."""
    parser = flag_parser(BalancerSettings, "python -m balancer", "Places voice calls on runtimes and relays them.", PREFIX)
    flags = vars(parser.parse_args(arguments))
    config = flags.pop("config", None)
    file_layer: dict[str, object] = {}
    if config is not None:
        with open(config, "rb") as file:
            file_layer = tomllib.load(file)
    return resolve(BalancerSettings, [file_layer, environment_layer(BalancerSettings, environment, PREFIX), flags])


def main() -> int:
    try:
        settings = read_settings(sys.argv[1:], dict(os.environ))
    except (SettingError, OSError, tomllib.TOMLDecodeError) as error:
        print(f"balancer: {error}", file=sys.stderr)
        return 2
    log = make_logger(sys.stderr, settings.log_level)
    try:
        anyio.run(serve, settings, log, sys.stdout, backend_options={"use_uvloop": sys.platform != "win32"})
    except VoiceError as error:
        if error.fault is not Fault.ENVIRONMENT:
            raise
        print(f"balancer: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
