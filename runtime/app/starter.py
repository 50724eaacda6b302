"""The process that started us holds our standard input open; its end is theirs, whatever ended them."""

from __future__ import annotations

import os
import select
import threading
from typing import Final

import anyio

__all__ = ["leave_for_sure", "until_starter_is_gone"]

_STDIN: Final = 0
_CHUNK_BYTES: Final = 4096


async def until_starter_is_gone() -> None:
    """Returns at the end of standard input; what is written there is read and dropped."""
    while True:
        try:
            await anyio.wait_readable(_STDIN)
            if not os.read(_STDIN, _CHUNK_BYTES):
                return
        except OSError:  # a file or /dev/null cannot be waited for, a closed one is nothing: nobody holds it open
            return


def leave_for_sure(within_s: float) -> None:
    """Ends this process so long after its starter, even where its event loop hangs and would never see the end.

    By a thread that ends with the process. Minds pipes only.
    """
    threading.Thread(target=_guard, args=(within_s,), name="starter-guard", daemon=True).start()


def _guard(within_s: float) -> None:
    hung_up = select.poll()
    hung_up.register(_STDIN, 0)  # POLLHUP comes unasked
    hung_up.poll()
    threading.Event().wait(within_s)
    os._exit(1)
