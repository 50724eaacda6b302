"""A network of its own for one runtime, which can be cut and mended: a namespace and a pair of virtual interfaces.

Cut, packets vanish: neither side is told, as with a pulled cable. Needs root, and Debian's `iproute2`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio

__all__ = ["Namespace", "NoNamespace", "namespace"]


class NoNamespace(Exception):
    """This machine gives none; the text says what is missing."""


@dataclass(frozen=True, slots=True)
class Namespace:
    """`near`: our address, as what runs inside sees it; `far`: of what runs inside."""

    name: str
    near: str
    far: str
    _far_interface: str

    @property
    def prefix(self) -> tuple[str, ...]:
        """Runs a command inside."""
        return ("ip", "netns", "exec", self.name)

    async def cut(self) -> None:
        await _ip(*f"-n {self.name} link set {self._far_interface} down".split())

    async def mend(self) -> None:
        await _ip(*f"-n {self.name} link set {self._far_interface} up".split())


@asynccontextmanager
async def namespace() -> AsyncIterator[Namespace]:
    """Raises NoNamespace. Everything is gone at the end."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        raise NoNamespace("a network of its own needs root and the command `ip` (Debian: iproute2)")
    number = os.getpid() % 16_384
    name, near_interface, far_interface = f"sb{number}", f"sbn{number}", f"sbf{number}"
    base = f"10.213.{number // 64}.{number % 64 * 4}".rsplit(".", 1)
    near, far = f"{base[0]}.{int(base[1]) + 1}", f"{base[0]}.{int(base[1]) + 2}"
    await _ip("netns", "add", name)
    try:
        await _ip(*f"link add {near_interface} type veth peer name {far_interface} netns {name}".split())
        await _ip(*f"address add {near}/30 dev {near_interface}".split())
        await _ip(*f"link set {near_interface} up".split())
        for command in ("link set lo up", f"address add {far}/30 dev {far_interface}", f"link set {far_interface} up"):
            await _ip("-n", name, *command.split())
        yield Namespace(name, near, far, far_interface)
    finally:
        with anyio.CancelScope(shield=True):
            await _ip("netns", "del", name)


async def _ip(*arguments: str) -> None:
    done = await anyio.run_process(["ip", *arguments], check=False, stderr=subprocess.PIPE)
    if done.returncode:
        raise NoNamespace(f"ip {' '.join(arguments)}: {done.stderr.decode(errors='replace').strip()}")
