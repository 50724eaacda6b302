"""Loading: warm at once, usable from any loop, and refused by name where something is missing."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import numpy as np
import pytest

from runtime.engines import whisper
from runtime.engines.errors import EngineClosed, ModelUnavailable
from runtime.engines.load import EngineSettings, load_engines

pytestmark = pytest.mark.models


def test_engines_serve_several_loops_and_close() -> None:
    engines = load_engines(EngineSettings(worker_threads=1))
    for use_uvloop in (True, False):
        options = {"use_uvloop": use_uvloop}
        heard = anyio.run(engines.recognizer.recognize, np.zeros(16_000, np.int16), backend_options=options)
        assert heard.text == ""
    assert engines.waiting() == 0
    engines.close()
    engines.close()
    with pytest.raises(EngineClosed):
        anyio.run(engines.recognizer.recognize, np.zeros(16_000, np.int16))


def test_another_model_than_the_tested_one_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whisper, "_SHA256", "0" * 64)
    with pytest.raises(ModelUnavailable, match=r"whisper tiny\.en.*model\.bin.*sha256 1a5afae0") as caught:
        load_engines()
    assert Path(caught.value.looked_for).is_file()


def test_a_missing_package_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(ModelUnavailable, match=r"whisper tiny\.en.*ctranslate2.*pip install"):
        load_engines()
