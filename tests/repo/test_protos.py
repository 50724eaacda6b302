"""The generated code beside the .proto files is what the compiler makes of them now."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_FOLDERS = [Path("protos/switchboard/v1"), Path("protos/xds/data/orca/v3"), Path("protos/xds/service/orca/v3")]

_PROTOS = sorted(path for folder in _FOLDERS for path in (_ROOT / folder).glob("*.proto"))


def test_generated_code_has_not_drifted(tmp_path: Path) -> None:
    outputs = [
        f"--{kind}={options}{tmp_path}"
        for kind, options in (
            ("python_out", ""),
            ("grpc_python_out", ""),
            ("mypy_out", "quiet:"),
            ("mypy_grpc_out", "quiet:"),
        )
    ]
    sources = [str(path.relative_to(_ROOT)) for path in _PROTOS]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I.", *outputs, *sources]
    subprocess.run(command, cwd=_ROOT, env=environment, check=True, timeout=120)
    made = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*_pb2*"))
    assert len(made) == 4 * len(sources)
    stale = [str(name) for name in made if (tmp_path / name).read_text() != (_ROOT / name).read_text()]
    assert stale == [], "run make protos"


@pytest.mark.parametrize("proto", _PROTOS, ids=lambda path: path.name)
def test_a_proto_explains_itself(proto: Path) -> None:
    assert proto.read_text().startswith("// ")
