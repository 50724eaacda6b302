"""Model files: missing and different ones are refused by name, with the fix."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from runtime.engines.errors import ModelUnavailable
from runtime.engines.model_files import find_model, import_engine, verify_sha256
from runtime.primitives.errors import Fault


def test_the_tested_file_passes_and_any_other_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(b"weights")
    tested = hashlib.sha256(b"weights").hexdigest()
    verify_sha256("toy", path, tested)
    path.write_bytes(b"weightz")
    with pytest.raises(ModelUnavailable) as caught:
        verify_sha256("toy", path, tested)
    for fact in ("toy", str(path), tested, hashlib.sha256(b"weightz").hexdigest(), "voice-switchboard[voice]"):
        assert fact in str(caught.value)
    assert (caught.value.code, caught.value.fault) == ("model_unavailable", Fault.ENVIRONMENT)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match=r"toy.*absent\.bin.*No such file.*pip install"):
        verify_sha256("toy", tmp_path / "absent.bin", "0" * 64)


def test_a_missing_package_is_named() -> None:
    with pytest.raises(ModelUnavailable, match=r"toy.*no_such_package_here.*not installed.*pip install"):
        find_model("toy", "no_such_package_here", "model.bin", "0" * 64)
    with pytest.raises(ModelUnavailable, match=r"toy.*no_such_package_here.*pip install"):
        import_engine("toy", "no_such_package_here")
