"""Joining the parts: names made, agents found, faults of the operator told in one line."""

from __future__ import annotations

import io

import pytest

from balancer.telemetry.logs import make_logger
from runtime.app.settings import RuntimeSettings
from runtime.app.wiring import Parts, engines_of, load_agent, wire
from runtime.engines.synthetic import synthetic_engines
from runtime.primitives.errors import SettingError
from runtime.primitives.load_snapshot import RuntimeState
from tests.support.call_parts import ScriptedAgent


def _wire(settings: RuntimeSettings) -> Parts:
    return wire(settings, ScriptedAgent("Yes."), synthetic_engines(), 4711, make_logger(io.StringIO(), "error"))


def test_a_runtime_without_a_name_gets_one_from_host_and_port() -> None:
    assert _wire(RuntimeSettings(machine_id="My_Host.local")).runtime_id == "my-host-local-4711"
    assert _wire(RuntimeSettings(runtime_id="r-1")).runtime_id == "r-1"
    with pytest.raises(SettingError, match="runtime_id"):
        _wire(RuntimeSettings(runtime_id="No Name"))


@pytest.mark.anyio
async def test_what_was_joined_agrees_with_the_settings() -> None:
    parts = _wire(RuntimeSettings(hard_limit=7, region="eu", abilities=("tools",)))
    taken = parts.snapshot()
    assert (taken.hard_limit, taken.region, taken.agents, taken.abilities) == (
        7,
        "eu",
        frozenset({"scripted"}),
        frozenset({"tools"}),
    )
    assert taken.state is RuntimeState.STARTING
    assert taken.incarnation == parts.incarnation > 0
    body, _ = parts.exposition()
    assert b'switchboard_runtime_state{state="starting"} 1.0' in body


def test_a_later_start_has_a_higher_incarnation() -> None:
    assert _wire(RuntimeSettings()).incarnation < _wire(RuntimeSettings()).incarnation


def test_the_default_agent_is_there() -> None:
    assert load_agent(RuntimeSettings().agent).name == "front-desk"


@pytest.mark.parametrize(
    "name", ["", "nowhere:Agent", "runtime.app.wiring:Nobody", "runtime.app.wiring:Parts", "builtins:dict", "json"]
)
def test_an_agent_that_is_none_is_refused_by_name(name: str) -> None:
    with pytest.raises(SettingError) as refused:
        load_agent(name)
    assert refused.value.name == "agent"


def test_synthetic_engines_need_no_models() -> None:
    engines = engines_of(RuntimeSettings(engines="synthetic"))
    assert engines.waiting() == 0
    engines.close()
