"""Certificates from files: what is no certificate is refused at the start, and changes nothing later. (decision 17)"""

from __future__ import annotations

import io
import os
import ssl
from pathlib import Path

import pytest
import trustme

from balancer.app.public_tls import PublicTls
from balancer.telemetry.logs import make_logger
from runtime.primitives.errors import SettingError
from tests.support.tls import write_certificate


def _served_to(tls: PublicTls, authority: trustme.CA) -> int:
    """The serial number of the certificate that a client is shown, over a connection in memory."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(context)
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(to_client, to_server, server_hostname="localhost")
    server = tls.context.wrap_bio(to_server, to_client, server_side=True)
    is_done = [False, False]
    while not all(is_done):
        for at, side in enumerate((client, server)):
            try:
                side.do_handshake()
                is_done[at] = True
            except ssl.SSLWantReadError:
                continue
    shown = client.getpeercert()
    assert shown is not None
    return int(str(shown["serialNumber"]), 16)


def _tls(files: tuple[Path, Path], log: io.StringIO) -> PublicTls:
    return PublicTls(str(files[0]), str(files[1]), make_logger(log, "debug"))


def test_a_renewed_certificate_is_shown_once_its_key_fits(tmp_path: Path) -> None:
    authority, log = trustme.CA(), io.StringIO()
    files = write_certificate(authority, tmp_path)
    tls = _tls(files, log)
    first = _served_to(tls, authority)
    tls.look()
    assert "certificate" not in log.getvalue()

    key = files[1].read_bytes()
    write_certificate(authority, tmp_path)
    newer = files[1].read_bytes()
    files[1].write_bytes(key)  # half renewed
    tls.look()
    assert "certificate not taken" in log.getvalue()
    assert _served_to(tls, authority) == first

    files[1].write_bytes(newer)
    os.utime(files[1], ns=(1, 1))
    tls.look()
    assert _served_to(tls, authority) != first
    assert log.getvalue().count('"certificate taken"') == 1

    files[0].unlink()
    tls.look()
    assert _served_to(tls, authority) != first


@pytest.mark.parametrize("fault", ["missing", "empty", "swapped", "another's key", "encrypted"])
def test_files_that_are_no_certificate_and_its_key_stop_the_start(tmp_path: Path, fault: str) -> None:
    certificate, key = write_certificate(trustme.CA(), tmp_path)
    match fault:
        case "missing":
            certificate = tmp_path / "nowhere"
        case "empty":
            certificate.write_bytes(b"")
        case "swapped":
            certificate, key = key, certificate
        case "another's key":
            key = write_certificate(trustme.CA(), tmp_path / "other")[1]
        case "encrypted":
            key.write_text("-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n")
    with pytest.raises(SettingError, match=r"public_tls_certificate, public_tls_key.*a certificate chain and its key"):
        _tls((certificate, key), io.StringIO())
