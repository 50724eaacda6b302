"""The lab knows its own connections."""

from __future__ import annotations

import socket

from perf.faults.residue import connections_to


def test_a_connection_of_this_process_is_seen_while_it_lasts() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert connections_to({port}) == 0
        with socket.create_connection(("127.0.0.1", port)):
            assert connections_to({port}) == 1
            assert connections_to({port + 1}) == 0
        assert connections_to({port}) == 0
