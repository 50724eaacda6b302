# The front door. `make help` lists what there is; each target stands alone.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
OPENAI_READY := .venv-openai/.ready
AGENTS_READY := .venv-openai-agents/.ready
PIPECAT_READY := .venv-pipecat/.ready
PEERS_READY := .venv-peers/.ready
LLM_READY := .venv-llm/.ready
PROTOS := $(wildcard protos/switchboard/v1/*.proto protos/xds/*/orca/v3/*.proto)

.PHONY: help setup demo test unit e2e browser clients-test local-llm smart-turn lint types fmt protos lock soak sim bench bench-voice all clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(READY): requirements/all.lock requirements/install.sh pyproject.toml
	@requirements/install.sh $(VENV) requirements/all.lock --project
	@touch $@

$(OPENAI_READY): requirements/openai-client.lock requirements/install.sh
	@requirements/install.sh .venv-openai requirements/openai-client.lock
	@touch $@

$(AGENTS_READY): requirements/openai-agents-client.lock requirements/install.sh
	@requirements/install.sh .venv-openai-agents requirements/openai-agents-client.lock
	@touch $@

$(PIPECAT_READY): requirements/pipecat-client.lock requirements/install.sh
	@requirements/install.sh .venv-pipecat requirements/pipecat-client.lock
	@touch $@

$(PEERS_READY): requirements/peers.lock requirements/install.sh
	@requirements/install.sh .venv-peers requirements/peers.lock
	@touch $@

$(LLM_READY): requirements/local-llm.lock requirements/install.sh
	@requirements/install.sh .venv-llm requirements/local-llm.lock --no-deps
	@touch $@

setup: $(READY) ## install everything into .venv

demo: $(READY) ## a balancer, three runtimes and real calls; ARGS="--once --json", ARGS="--wav DIR"
	@$(BIN)/python -m perf.demo $(ARGS)

test: $(READY) $(OPENAI_READY) $(PEERS_READY) ## every test; ARGS="tests/runtime -k ledger" for some of them
	@$(BIN)/python -m pytest $(ARGS)

unit: $(READY) ## the quick tests: no models, no processes
	@$(BIN)/python -m pytest -m "not models and not e2e and not slow" $(ARGS)

e2e: $(READY) $(OPENAI_READY) $(PEERS_READY) ## real processes, real models, a kill -9
	@$(BIN)/python -m pytest tests/e2e $(ARGS)

browser: ## install Chromium for the call page's test, where there is none (apt)
	@requirements/browser.sh

clients-test: $(READY) $(OPENAI_READY) $(AGENTS_READY) $(PIPECAT_READY) ## unmodified third-party clients through the balancer, one at a time
	@$(BIN)/python -m pytest -m clients tests/third_party $(ARGS)

lint: $(READY) ## ruff, formatting, import contracts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports

types: $(READY) ## mypy --strict on everything
	@$(BIN)/mypy

fmt: $(READY) ## format and fix what can be fixed
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

protos: $(READY) ## generate the code beside the .proto files
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m grpc_tools.protoc -I. --python_out=. --grpc_python_out=. \
	  --mypy_out=quiet:. --mypy_grpc_out=quiet:. $(PROTOS)

lock: $(READY) ## compile the hashed locks anew (needs uv)
	@uv pip compile pyproject.toml --extra voice --extra dev --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header -q -o requirements/all.lock
	@uv pip compile requirements/openai-client.in --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header -q -o requirements/openai-client.lock
	@for client in openai-agents-client pipecat-client; do \
	  uv pip compile requirements/$$client.in --universal --python-version 3.11 --generate-hashes \
	    --no-emit-index-url --no-header -q -o requirements/$$client.lock; done
	@uv pip compile requirements/local-llm.in --no-deps --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header -q -o requirements/local-llm.lock
	@uv pip compile requirements/peers.in --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header -q -o requirements/peers.lock

smart-turn: $(READY) ## the optional end-of-turn classifier; prints its file, for: python -m runtime --smart-turn FILE
	@requirements/fetch-smart-turn.sh $(BIN)/python .cache/models

local-llm: $(LLM_READY) ## a small language model on this machine, served for runtime.engines.llm:LlmAgent
	@.venv-llm/bin/python examples/local_llm.py

soak: $(READY) ## a local fleet under Locust callers for a minute, as JSON, drawn to out/soak.png; ARGS="--seconds 300 --users 20"
	@$(BIN)/python -m perf.locust.soak --json $(ARGS)

sim: $(READY) ## every policy in every scenario, written to docs/simulation.md with its pictures (over an hour on two cores)
	@$(BIN)/python -m perf.sim.document $(ARGS)

bench: $(READY) ## decision time, relay cost and codec cost, as JSON
	@$(BIN)/python -m perf.bench.decision --json
	@$(BIN)/python -m perf.bench.relay --json
	@$(BIN)/python -m perf.bench.wires --json

bench-voice: $(READY) ## turn latency, CPU and memory per call with real models, as JSON
	@$(BIN)/python -m perf.voice --json $(ARGS)

all: lint types test ## what CI runs

clean: ## leave a fresh checkout
	@rm -rf $(VENV) .venv-openai .venv-openai-agents .venv-pipecat .venv-peers .venv-llm .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist out *.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
