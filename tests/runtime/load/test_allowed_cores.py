"""How many cores are ours, from trees of files as the kernel would show them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runtime.load.allowed_cores import AllowedCores, allowed_cores


def _tree(root: Path, **files: str) -> Path:
    """Files by path; `__` stands for a slash and `_dot_` for a dot."""
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def _cores(tmp_path: Path, membership: str, affinity: int = 8, override: float = 0.0, **files: str) -> AllowedCores:
    own = tmp_path / "own"
    own.write_text(membership)
    return allowed_cores(affinity, override, _tree(tmp_path / "cgroup", **files), own)


def test_without_files_affinity_decides(tmp_path: Path) -> None:
    assert allowed_cores(3, root=tmp_path / "no", membership=tmp_path / "none") == AllowedCores(3.0, "affinity")


@pytest.mark.parametrize(
    ("text", "cores"),
    [("150000 100000", 1.5), ("max 100000", 8.0), ("", 8.0), ("x y", 8.0), ("100000 0", 8.0), ("-1 100000", 8.0)],
)
def test_the_quota_of_version_2(tmp_path: Path, text: str, cores: float) -> None:
    assert _cores(tmp_path, "0::/\n", cpu_dot_max=text).cores == cores


def test_the_least_limit_on_the_way_up_counts(tmp_path: Path) -> None:
    found = _cores(
        tmp_path,
        "0::/machine/pod/box\n",
        machine__cpu_dot_max="400000 100000",
        machine__pod__cpu_dot_max="50000 100000",
        machine__pod__box__cpu_dot_max="200000 100000",
        other__cpu_dot_max="1000 100000",
    )
    assert found.cores == 0.5
    assert "pod" in found.source


@pytest.mark.parametrize(("quota", "cores"), [("250000", 2.5), ("-1", 8.0)])
def test_the_quota_of_version_1(tmp_path: Path, quota: str, cores: float) -> None:
    files: dict[str, Any] = {"cpu,cpuacct__box__cpu_dot_cfs_quota_us": quota, "cpu,cpuacct__box__cpu_dot_cfs_period_us": "100000"}
    assert _cores(tmp_path, "4:memory:/box\n3:cpu,cpuacct:/box\n", **files).cores == cores


@pytest.mark.parametrize(
    ("text", "cores", "source"), [("0-1\n", 2, "cpuset"), ("0,2,4-5", 4, "cpuset"), ("\n", 8, "affinity"), ("a-b", 8, "affinity")]
)
def test_the_cpuset(tmp_path: Path, text: str, cores: int, source: str) -> None:
    found = _cores(tmp_path, "0::/\n", cpuset_dot_cpus_dot_effective=text)
    assert found == AllowedCores(float(cores), source)


def test_the_cpuset_of_version_1(tmp_path: Path) -> None:
    files: dict[str, Any] = {"cpuset__box__cpuset_dot_effective_cpus": "3"}
    assert _cores(tmp_path, "7:cpuset:/box\n", **files) == AllowedCores(1.0, "cpuset")


def test_an_override_only_narrows(tmp_path: Path) -> None:
    assert _cores(tmp_path, "0::/\n", override=1.5) == AllowedCores(1.5, "override")
    assert _cores(tmp_path, "0::/\n", override=100.0, cpu_dot_max="100000 100000").cores == 1.0


def test_lines_that_are_no_membership_are_passed_over(tmp_path: Path) -> None:
    assert _cores(tmp_path, "nonsense\n\n0::/\n", cpu_dot_max="100000 100000").cores == 1.0
