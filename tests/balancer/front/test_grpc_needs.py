"""What a gRPC caller asks for: metadata and configuration together."""

from __future__ import annotations

import pytest

from balancer.front.grpc_needs import Asked, asked_by, upgrade_of
from balancer.front.responses import HttpError
from balancer.front.upgrade import accept_of
from balancer.routing.request import Priority
from protos.switchboard.v1 import voice_pb2 as pb


def config(**fields: str) -> bytes:
    return pb.ConverseRequest(config=pb.SessionConfig(**fields)).SerializeToString()  # type: ignore[arg-type]


def asked(metadata: list[tuple[str, str | bytes]], first: bytes) -> Asked:
    return asked_by(metadata, first, lambda: "made")


def test_all_that_a_caller_may_ask_for() -> None:
    found = asked(
        [
            ("user-agent", "grpc-python"),
            ("x-switchboard-session", "mine"),
            ("x-switchboard-tenant", "acme"),
            ("x-switchboard-agent", "desk"),
            ("x-switchboard-abilities", "tools, vision"),
            ("x-switchboard-region", "eu"),
            ("x-switchboard-min-version", "1.2"),
            ("x-switchboard-context-window", "1000"),
            ("x-switchboard-priority", "high"),
            ("x-switchboard-ticket", "of a runtime"),
            ("authorization", "Bearer key"),
            ("grpc-trace-bin", b"\x00"),
        ],
        config(session_id="mine", agent="desk"),
    )
    request = found.request
    assert (request.session_id, request.tenant, request.agent) == ("mine", "acme", "desk")
    assert (request.abilities, request.region, request.min_version) == (frozenset({"tools", "vision"}), "eu", (1, 2))
    assert (request.context_window, request.priority) == (1000, Priority.HIGH)
    assert found.passed == b"x-switchboard-tenant: acme\r\nauthorization: Bearer key\r\n"


def test_the_configuration_alone_is_enough_as_it_is_at_a_runtime() -> None:
    request = asked([], config(session_id="mine", agent="desk")).request
    assert (request.session_id, request.agent) == ("mine", "desk")
    request = asked([], config()).request
    assert (request.session_id, request.agent) == ("made", "")


@pytest.mark.parametrize(
    ("metadata", "first", "code", "text"),
    [
        ([], b"\xff", "bad_field", "no ConverseRequest"),
        ([], b"", "bad_field", "the first message has no config"),
        ([], pb.ConverseRequest(text="hello").SerializeToString(), "bad_field", "the first message has no config"),
        ([("x-switchboard-session", "one")], config(session_id="two"), "session_differs", "config.session_id differ"),
        ([("x-switchboard-agent", "one")], config(agent="two"), "bad_field", "config.agent differ"),
        ([("x-switchboard-region", "eu"), ("x-switchboard-region", "us")], config(), "bad_field", "twice"),
        ([("x-switchboard-prioritiy", "high")], config(), "bad_field", "unknown metadata 'x-switchboard-prioritiy'"),
        ([("x-switchboard-priority", "urgent")], config(), "bad_field", "priority"),
        ([], config(session_id="a b"), "bad_field", "session_id"),
        ([("x-switchboard-tenant", "a b")], config(), "bad_field", "tenant"),
    ],
)
def test_what_is_wrong_is_named(metadata: list[tuple[str, str | bytes]], first: bytes, code: str, text: str) -> None:
    with pytest.raises(HttpError, match=text) as raised:
        asked(metadata, first)
    assert (raised.value.status, raised.value.code) == (400, code)


def test_the_upgrade_asks_a_runtime_for_the_same_agent() -> None:
    upgrade = upgrade_of(asked([("x-switchboard-tenant", "acme")], config(agent="front desk")), bytes(range(16)))
    assert upgrade.target == b"/v1/converse?model=front+desk"
    assert upgrade.passed.endswith(b"Sec-WebSocket-Key: AAECAwQFBgcICQoLDA0ODw==\r\nx-switchboard-tenant: acme\r\n")
    assert upgrade.accept == accept_of(b"AAECAwQFBgcICQoLDA0ODw==")
    assert upgrade_of(asked([], config()), bytes(16)).target == b"/v1/converse"
