"""TLS of the public ports: a certificate from files, looked at again while we serve, so that it can be renewed under calls.

Connections that are open keep theirs. Files that do not fit each other, as in the middle of a renewal, change nothing.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final

import anyio
import grpc
import structlog

from balancer.app.settings import BalancerSettings
from runtime.primitives.errors import SettingError

__all__ = ["PublicTls", "public_tls"]

_LOOK_EVERY_S: Final = 10.0


class PublicTls:
    """Raises SettingError for files that cannot be read or are no certificate and its key.

    Attributes:
        context: for the HTTP port.
    """

    def __init__(self, certificate_file: str, key_file: str, log: structlog.typing.FilteringBoundLogger) -> None:
        self._files = Path(certificate_file), Path(key_file)
        self._log = log
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.set_alpn_protocols(["http/1.1"])
        try:
            self._seen = self._stamps()
            self._load(self.context)
            self._pems = self._read()
        except (OSError, ssl.SSLError) as error:
            allowed = f"a certificate chain and its key in PEM files; {error.strerror or type(error).__name__}"
            raise SettingError("public_tls_certificate, public_tls_key", f"{certificate_file}, {key_file}", allowed) from None

    async def watch(self) -> None:
        """Takes new files within some seconds; ends only by cancellation."""
        while True:
            await anyio.sleep(_LOOK_EVERY_S)
            self.look()

    def look(self) -> None:
        """Takes the files if they have changed and fit."""
        try:
            stamps = self._stamps()
            if stamps == self._seen:
                return
            self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))  # a trial: a context that failed half-way would serve half of it
            pems = self._read()
            self._load(self.context)
        except (OSError, ssl.SSLError) as error:
            self._log.warning("certificate not taken", cause=str(error))
            return
        self._seen, self._pems = stamps, pems
        self._log.info("certificate taken")

    def credentials(self) -> grpc.ServerCredentials:
        """For the gRPC port; asked for again at each new connection."""
        fetch: Callable[[], grpc.ServerCertificateConfiguration] = self._configuration
        return grpc.dynamic_ssl_server_credentials(self._configuration(), fetch)

    def _configuration(self) -> grpc.ServerCertificateConfiguration:
        certificate, key = self._pems
        return grpc.ssl_server_certificate_configuration([(key, certificate)])

    def _load(self, context: ssl.SSLContext) -> None:
        certificate, key = self._files
        context.load_cert_chain(certificate, key, password=lambda: "")  # one that wants a password must not ask the terminal

    def _read(self) -> tuple[bytes, bytes]:
        certificate, key = self._files
        return certificate.read_bytes(), key.read_bytes()

    def _stamps(self) -> tuple[tuple[int, int, int], ...]:
        stats = [file.stat() for file in self._files]
        return tuple((stat.st_ino, stat.st_mtime_ns, stat.st_size) for stat in stats)


def public_tls(settings: BalancerSettings, log: structlog.typing.FilteringBoundLogger) -> PublicTls | None:
    """None: the public ports speak no TLS. Raises SettingError."""
    if not settings.public_tls_certificate:
        return None
    return PublicTls(settings.public_tls_certificate, settings.public_tls_key, log)
