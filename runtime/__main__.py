"""`python -m runtime`: one runtime process."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

import anyio

from runtime.app.serve import serve
from runtime.app.settings import ENVIRONMENT_PREFIX, RuntimeSettings
from runtime.app.supervisor import supervise
from runtime.primitives.errors import VoiceError
from runtime.primitives.settings import from_command_line
from runtime.telemetry.logs import make_log

_DESCRIPTION = "Runs one Switchboard runtime: answers voice calls over WebSocket (OpenAI Realtime) and gRPC."


def main() -> int:
    try:
        settings = from_command_line(
            RuntimeSettings,
            "switchboard runtime",
            _DESCRIPTION,
            ENVIRONMENT_PREFIX,
            sys.argv[1:],
            os.environ,
            lambda path: Path(path).read_text(),
        )
        # One busy Python thread would otherwise hold the event loop for 5 ms at a time.
        sys.setswitchinterval(0.0005)
        main_task = supervise if settings.workers > 1 else serve
        anyio.run(partial(main_task, settings, make_log(settings.log_level)), backend_options={"use_uvloop": True})
    except (VoiceError, OSError) as error:
        print(f"switchboard runtime: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
