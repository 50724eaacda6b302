"""Finds model files inside installed packages and refuses any that is not the one that was tested. Never fetches anything."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Final

from runtime.engines.errors import ModelUnavailable

__all__ = ["find_model", "import_engine", "verify_sha256"]

_CHUNK_BYTES: Final = 1 << 20


def import_engine(model: str, module: str) -> ModuleType:
    """The module that runs `model`. Raises ModelUnavailable where it is not installed or does not load on this machine."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ModelUnavailable(model, f"the Python package {module}", str(error)) from error


def find_model(model: str, package: str, relative: str, sha256: str) -> Path:
    """The file at `relative` inside the installed `package`, which is not imported. `sha256` is the full hexadecimal digest.

    Reads the whole file once (75 MB take about 0.1 s). Raises ModelUnavailable where package or file are missing or differ.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModelUnavailable(model, f"the Python package {package}", "it is not installed")
    path = Path(next(iter(spec.submodule_search_locations))) / relative
    verify_sha256(model, path, sha256)
    return path


def verify_sha256(model: str, path: Path, sha256: str) -> None:
    """Raises ModelUnavailable where the file is missing, unreadable or has another digest."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
    except OSError as error:
        raise ModelUnavailable(model, str(path), error.strerror or type(error).__name__) from error
    if digest.hexdigest() != sha256:
        problem = f"it has sha256 {digest.hexdigest()}, not the tested {sha256}"
        raise ModelUnavailable(model, str(path), problem)
