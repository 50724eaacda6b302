"""The program itself: the ready line, exit statuses, settings refused by name, an orderly stop."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from balancer.__main__ import PREFIX
from balancer.app.settings import BalancerSettings
from runtime.primitives.errors import SettingError
from runtime.primitives.settings import from_command_line

ANY_PORT = ["--public-port", "0", "--operator-port", "0", "--control-port", "0"]


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "balancer", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_it_listens_serves_and_stops(number: signal.Signals) -> None:
    with start(*ANY_PORT) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        assert ready["event"] == "ready"
        for port in ("public", "operator"):
            with urllib.request.urlopen(ready[port] + "/healthz", timeout=5) as answer:
                assert answer.status == 200
        with urllib.request.urlopen(ready["operator"] + "/v1/fleet", timeout=5) as answer:
            assert json.load(answer)["books"]["balanced"]
        process.send_signal(number)
        out, err = process.communicate(timeout=15)
        assert process.returncode == 0
        assert out == ""
        assert [json.loads(line)["event"] for line in err.splitlines()][-2:] == ["stopping", "stopped"]


@pytest.mark.parametrize("which", ["public", "operator", "control", "public-grpc"])
def test_a_busy_port_is_one_clear_line(which: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        process = start(*ANY_PORT, f"--{which}-port", port)
        out, err = process.communicate(timeout=15)
    assert process.returncode == 2
    assert out == ""
    assert err.splitlines() == [
        f"switchboard balancer: cannot listen on 127.0.0.1:{port} ({which.replace('-', '_')}_port): Address already in use"
    ]


def read_settings(arguments: list[str], environment: dict[str, str]) -> BalancerSettings:
    return from_command_line(
        BalancerSettings, "balancer", "", PREFIX, arguments, environment, lambda path: Path(path).read_text()
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--target-utilisation", "1.5"], ["target_utilisation", "1.5", "at most 1"]),
        (["--scaler", "nan"], ["scaler", "nan"]),
        (["--policy", "magic"], ["policy", "magic", "session_aware"]),
        (["--lease-ttl-ms", "6000"], ["lease_ttl_ms", "6000", "2 x 1000 x 3 = 6000"]),
        (["--suspect-after-ms", "900"], ["suspect_after_ms", "900", "heartbeat_interval_ms = 1000"]),
        (["--report-max-age-ms", "1500"], ["report_max_age_ms", "1500", "2000"]),
        (["--min-sdk-version", "new"], ["min_sdk_version", "new"]),
        (["--public-port", "70000"], ["public_port", "70000", "65535"]),
        (["--role", "boss"], ["role", "boss", "both", "control", "relay"]),
        (["--role", "relay"], ["control_address", "host:port"]),
        (["--role", "relay", "--control-address", "here"], ["control_address", "here", "host:port"]),
        (["--role", "control", "--control-address", "a:1"], ["control_address", "a:1", "the role control"]),
        (["--relay-id", "a b"], ["relay_id", "a b", "at most 64"]),
    ],
)
def test_an_impossible_setting_is_refused_by_name_value_and_range(arguments: list[str], words: list[str]) -> None:
    with pytest.raises(SettingError) as refused:
        read_settings(arguments, {})
    for word in words:
        assert word in str(refused.value)


def test_flags_win_over_environment_over_file(tmp_path: Path) -> None:
    config = tmp_path / "balancer.toml"
    config.write_text('policy = "random"\ncold_allowance = 5\nscaler = 3\n')
    environment = {"SWITCHBOARD_BALANCER_COLD_ALLOWANCE": "6", "SWITCHBOARD_BALANCER_SCALER": "4"}
    found = read_settings(["--config", str(config), "--scaler", "5"], environment)
    assert (found.policy, found.cold_allowance, found.scaler) == ("random", 6, 5.0)
    assert read_settings([], {}) == BalancerSettings()


def test_a_bad_setting_exits_with_2_and_one_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "balancer", "--window-s", "0"],
        capture_output=True, text=True, timeout=15, check=False, env=dict(os.environ),
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.splitlines() == ["switchboard balancer: setting 'window_s' is 0.0; allowed: above 0, at most 3600"]
