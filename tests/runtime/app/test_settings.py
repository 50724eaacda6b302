"""Every setting: a default that holds, a range that is kept, a refusal that names it."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.app.settings import ENVIRONMENT_PREFIX, RuntimeSettings
from runtime.primitives.errors import SettingError
from runtime.primitives.settings import environment_layer, resolve
from runtime.session.shared_layout import Layout


def test_the_defaults_are_allowed() -> None:
    assert resolve(RuntimeSettings, []) == RuntimeSettings()
    assert RuntimeSettings().adoption_limit == 40


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("hard_limit", "0", "at least 1"),
        ("http_port", "70000", "at most 65535"),
        ("cpu_share", "0", "above 0"),
        ("cpu_share", "nan", "above 0"),
        ("cpu_share", "1.5", "at most 1"),
        ("engines", "real", "models | synthetic"),
        ("allow_direct", "maybe", "loopback | everywhere | nowhere"),
        ("cost_class", "cheap", "owned | on_demand | spot"),
        ("drain_timeout_s", "-1", "at least 0"),
        ("first_message_s", "soon", "a number"),
        ("lead_ms", "1.5", "a whole number"),
        ("agent", "", "not empty"),
        ("colour", "red", "one of"),
        ("emergency_limit", "10000000", "at most 125000"),
        ("inflow_depth", "9" * 400, "at most 1000000"),
        ("synthetic_seed", "9" * 400, "at most"),
        ("machine_id", "a/b", "1-64 characters"),
        ("machine_id", "..", "1-64 characters"),
        ("machine_id", "x" * 65, "1-64 characters"),
        ("runtime_id", "No Name", "1-64 characters"),
        ("runtime_id", "r" * 65, "1-64 characters"),
        ("shard", "3", "a supervisor gives its workers their own"),
    ],
)
def test_an_impossible_value_is_refused_by_name_value_and_range(name: str, value: str, words: str) -> None:
    with pytest.raises(SettingError) as refused:
        resolve(RuntimeSettings, [{name: value}])
    assert refused.value.name == name
    assert words in str(refused.value)


def test_room_for_moved_calls_is_not_below_the_room_for_new_ones() -> None:
    with pytest.raises(SettingError, match=r"emergency_limit.*at least hard_limit \(10\)"):
        RuntimeSettings(hard_limit=10, emergency_limit=9)
    assert RuntimeSettings(hard_limit=10, emergency_limit=10).adoption_limit == 10
    assert RuntimeSettings(hard_limit=1).adoption_limit == 2


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("runtime_id", "r" * 62, "1-61 characters"),
        ("report_fd", "3", "a supervisor gives its workers their own"),
        ("worker_silence_s", "2.9", "0, or 3 to 3600"),
        ("worker_start_s", "0", "above 0"),
        ("shard", "3", "a supervisor gives its workers their own"),
        ("http_port", "65535", "0 to 65526: 10 workers count up from it"),
        ("agent_check_port", "65530", "0 to 65526: 10 workers count up from it"),
        ("grpc_port", "8009", "ports apart from those of http_port"),
    ],
)
def test_what_fits_one_runtime_may_not_fit_ten(name: str, value: str, words: str) -> None:
    given = {"workers": "10", "http_port": "8000", name: value}
    with pytest.raises(SettingError) as refused:
        resolve(RuntimeSettings, [given])
    assert refused.value.name == name
    assert words in str(refused.value)


def test_the_highest_limits_fit_the_shared_counters() -> None:
    assert Layout(256, RuntimeSettings(hard_limit=100_000).adoption_limit).slots == 125_000


def test_the_environment_is_read_by_prefix() -> None:
    layer: Any = environment_layer(
        RuntimeSettings, {f"{ENVIRONMENT_PREFIX}_BALANCERS": "a:1, b:2", "OTHER": "x"}, ENVIRONMENT_PREFIX
    )
    assert resolve(RuntimeSettings, [layer]).balancers == ("a:1", "b:2")
