"""A worker gets an identity, ports and a share of its own, and exactly the settings that were meant."""

from __future__ import annotations

from pathlib import Path

from runtime.app.settings import ENVIRONMENT_PREFIX, RuntimeSettings
from runtime.app.worker_command import worker_command, worker_environment, worker_settings
from runtime.primitives.settings import from_command_line


def test_the_command_line_says_the_same_settings() -> None:
    settings = RuntimeSettings(workers=3, http_port=9000, balancers=("a:1", "b:2"), region="north", hard_limit=7)
    own = worker_settings(settings, "m", Path("seg"), 2)
    read = from_command_line(RuntimeSettings, "x", "x", ENVIRONMENT_PREFIX, worker_command(own)[3:], {}, lambda _: "")
    assert read == own
    assert (own.runtime_id, own.http_port, own.grpc_port, own.shard, own.workers) == ("m-3", 9002, 0, 2, 1)
    assert own.cpu_share == 1 / 3


def test_what_the_supervisors_environment_and_file_say_does_not_reach_a_worker_again() -> None:
    own = worker_settings(RuntimeSettings(workers=2, machine_id="Rack_7.local"), "Rack_7.local", Path("seg"), 0)
    assert own.runtime_id == "rack-7-local-1"
    environment = {
        f"{ENVIRONMENT_PREFIX}_WORKERS": "2",
        f"{ENVIRONMENT_PREFIX}_HARD_LIMIT": "5",
        f"{ENVIRONMENT_PREFIX}_CONFIG": "f",
    }
    read = from_command_line(
        RuntimeSettings, "x", "x", ENVIRONMENT_PREFIX, worker_command(own)[3:], environment, lambda _: "workers = 2\nregion = 'x'"
    )
    assert read == own
    assert worker_environment({**environment, "PATH": "p", "SWITCHBOARD_BALANCER_CONFIG": "b"}, own) == {
        "PATH": "p",
        "SWITCHBOARD_BALANCER_CONFIG": "b",
        f"{ENVIRONMENT_PREFIX}_TWILIO_AUTH_TOKEN": "",
        f"{ENVIRONMENT_PREFIX}_TICKET_KEYS": "",
    }


def test_a_secret_is_on_no_command_line() -> None:
    own = worker_settings(
        RuntimeSettings(workers=2, twilio_auth_token="hush", ticket_keys=("now:" + "x" * 32,)), "m", Path("seg"), 0
    )
    assert "hush" not in " ".join(worker_command(own))
    environment = worker_environment({}, own)
    read = from_command_line(RuntimeSettings, "x", "x", ENVIRONMENT_PREFIX, worker_command(own)[3:], environment, lambda _: "")
    assert read == own
