"""How many cores this process may use: the least of quota, cpuset, affinity and an override. Missing files mean affinity.

Sources: the kernel's cgroup v2 (`cpu.max`, `cpuset.cpus.effective`) and v1 (`cpu.cfs_quota_us`, `cpu.cfs_period_us`) documents.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

__all__ = ["AllowedCores", "allowed_cores"]


@dataclass(frozen=True, slots=True)
class AllowedCores:
    """`cores` is above 0; `source` says which limit decided, for the log."""

    cores: float
    source: str


def allowed_cores(
    affinity: int, override: float = 0.0, root: Path = Path("/sys/fs/cgroup"), membership: Path = Path("/proc/self/cgroup")
) -> AllowedCores:
    """The cores this process may use.

    Args:
        affinity: cores of the scheduler's affinity mask, at least 1.
        override: what the operator says; 0: nothing.
    """
    limits = [AllowedCores(float(affinity), "affinity")]
    for folder in _folders(root, membership):
        quota = _quota_v2(folder) or _quota_v1(folder)
        if quota is not None:
            limits.append(AllowedCores(quota, f"cgroup quota in {folder.name or folder}"))
        pinned = _cpuset(folder)
        if pinned:
            limits.append(AllowedCores(float(pinned), "cpuset"))
    if override > 0.0:
        limits.append(AllowedCores(override, "override"))
    return min(limits, key=lambda limit: limit.cores)


def _folders(root: Path, membership: Path) -> list[Path]:
    """Every folder on the way from the process's own groups up to the root: each may hold a limit."""
    found: list[Path] = []
    for line in (_read(membership) or "0::/").splitlines():
        fields = line.split(":", 2)
        if len(fields) != 3:
            continue
        controllers, path = fields[1], PurePosixPath(fields[2])
        if controllers and not {"cpu", "cpuset"} & set(controllers.split(",")):
            continue
        base = root / controllers if controllers else root
        for part in (path, *path.parents):
            folder = base / str(part).lstrip("/")
            if folder not in found:
                found.append(folder)
    return found


def _quota_v2(folder: Path) -> float | None:
    fields = (_read(folder / "cpu.max") or "").split()
    if len(fields) != 2 or fields[0] == "max":
        return None
    return _ratio(fields[0], fields[1])


def _quota_v1(folder: Path) -> float | None:
    quota, period = _read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")
    return None if quota is None or period is None else _ratio(quota, period)


def _ratio(quota: str, period: str) -> float | None:
    try:
        ratio = int(quota) / int(period)
    except (ValueError, ZeroDivisionError):
        return None
    return ratio if ratio > 0 else None


def _cpuset(folder: Path) -> int:
    text = _read(folder / "cpuset.cpus.effective") or _read(folder / "cpuset.effective_cpus") or ""
    count = 0
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if not first.isdigit() or (last and not last.isdigit()):
            return 0
        count += int(last or first) - int(first) + 1
    return count


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:
        return None
