"""The sockets of a runtime besides HTTP: the gRPC server with its services, and HAProxy's agent-check."""

from __future__ import annotations

import socket
from typing import Final

from grpc import aio
from grpc_health.v1 import health, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from protos.switchboard.v1 import load_pb2, load_pb2_grpc, placement_pb2, placement_pb2_grpc, voice_pb2, voice_pb2_grpc
from protos.xds.service.orca.v3 import orca_pb2, orca_pb2_grpc
from runtime.app.settings import RuntimeSettings
from runtime.app.wiring import Parts
from runtime.load.orca_service import OrcaService
from runtime.load.report_service import LoadReportService
from runtime.transport.converse_service import ConverseService
from runtime.transport.http_server import listen
from runtime.transport.placement_service import PlacementService
from runtime.wire.keepalive import probing

__all__ = ["bind", "make_server", "open_agent_check"]

_OPTIONS: Final = (
    ("grpc.so_reuseport", 0),  # a taken port is an error, never shared by chance
    ("grpc.max_receive_message_length", 1024 * 1024),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
)


def make_server(parts: Parts, reports: LoadReportService, orca: OrcaService, healthy: health.aio.HealthServicer) -> aio.Server:
    """The gRPC server with every service of a runtime; not yet bound."""
    ping_ms = max(1, int(parts.settings.ping_interval_s * 1_000))
    server = aio.server(options=(*_OPTIONS, *probing(ping_ms, ping_ms)))
    converse = ConverseService(parts.calls, parts.places, parts.desk, parts.settings.first_message_s, parts.snapshot)
    placement = PlacementService(
        parts.calls, parts.snapshot, parts.admission.release_placement, parts.admission.release, parts.ring
    )
    voice_pb2_grpc.add_VoiceAgentServicer_to_server(converse, server)
    placement_pb2_grpc.add_PlacementServicer_to_server(placement, server)
    load_pb2_grpc.add_LoadReportsServicer_to_server(reports, server)
    orca_pb2_grpc.add_OpenRcaServiceServicer_to_server(orca, server)
    health_pb2_grpc.add_HealthServicer_to_server(healthy, server)
    files = (voice_pb2, placement_pb2, load_pb2, orca_pb2)
    names = [service.full_name for file in files for service in file.DESCRIPTOR.services_by_name.values()]
    reflection.enable_server_reflection([*names, health.SERVICE_NAME, reflection.SERVICE_NAME], server)
    return server


def bind(server: aio.Server, settings: RuntimeSettings) -> str:
    """Binds the gRPC port and answers the address to advertise. Raises OSError where it is taken."""
    wished = f"{settings.grpc_host}:{settings.grpc_port}"
    try:
        port = server.add_insecure_port(wished)
    except RuntimeError:
        port = 0
    if not port:
        raise OSError(f"cannot listen on {wished} (grpc_host, grpc_port): the port is taken or the host is not ours")
    return f"{settings.advertise_host or settings.grpc_host}:{port}"


def open_agent_check(settings: RuntimeSettings) -> socket.socket | None:
    """The listening socket for HAProxy's agent-check; None where it is off. Raises OSError where the port is taken."""
    if settings.agent_check_port < 0:
        return None
    try:
        return listen(settings.http_host, settings.agent_check_port)
    except OSError as error:
        wished = f"{settings.http_host}:{settings.agent_check_port}"
        raise OSError(f"cannot listen on {wished} (http_host, agent_check_port): {error.strerror}") from error
