"""Burns a stated amount of CPU in a native thread, as an engine's inference does, without holding the interpreter lock."""

from __future__ import annotations

import hashlib
import time
from typing import Final

from runtime.primitives.clock import NS_PER_MS

__all__ = ["CpuBurner"]

_BUFFER_BYTES: Final = 4 * 1024 * 1024
_PROBE_BYTES: Final = 256 * 1024
_PROBES: Final = 15
_CHUNK_MS: Final = 0.5
"""Between two chunks the thread takes the interpreter lock for microseconds, so no event loop waits for it."""
_SMALLEST_BYTES: Final = 4 * 1024
"""hashlib releases the interpreter lock above 2047 bytes."""
_ENOUGH_NS: Final = 20_000


class CpuBurner:
    """Hashes a buffer until the calling thread has used the wanted CPU time.

    How much is hashed at a time comes from a calibration (about 5 ms, when made); how long in all comes from the thread's own CPU
    clock, so waiting for a core or for the interpreter lock counts for nothing. May be shared by any number of threads.

    Attributes:
        bytes_per_ms: what this machine hashes in a millisecond of CPU, by the calibration.
    """

    def __init__(self) -> None:
        self._buffer = memoryview(bytes(_BUFFER_BYTES))
        self.bytes_per_ms = max(_SMALLEST_BYTES, int(_PROBE_BYTES * NS_PER_MS / self._fastest_probe_ns()))

    def burn(self, cpu_ms: float) -> float:
        """Uses `cpu_ms` of CPU and answers what it really was. Blocks at least as long; nothing for 0 and below."""
        began_ns = time.thread_time_ns()
        wanted_ns = int(cpu_ms * NS_PER_MS)
        while (left_ns := wanted_ns - (time.thread_time_ns() - began_ns)) > _ENOUGH_NS:
            self.hash_chunk(min(_CHUNK_MS, left_ns / NS_PER_MS))
        return (time.thread_time_ns() - began_ns) / NS_PER_MS

    def hash_chunk(self, cpu_ms: float) -> None:
        """One uninterrupted piece of native work of about `cpu_ms`, by the calibration alone."""
        size = max(_SMALLEST_BYTES, min(_BUFFER_BYTES, int(cpu_ms * self.bytes_per_ms)))
        hashlib.sha256(self._buffer[:size])

    def _fastest_probe_ns(self) -> int:
        """The least of some probes: whatever disturbs one makes it slower, never faster."""
        fastest_ns = 0
        for _ in range(_PROBES):
            began_ns = time.thread_time_ns()
            hashlib.sha256(self._buffer[:_PROBE_BYTES])
            spent_ns = max(1, time.thread_time_ns() - began_ns)
            fastest_ns = min(fastest_ns or spent_ns, spent_ns)
        return fastest_ns
