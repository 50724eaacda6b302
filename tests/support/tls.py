"""Certificates of an authority that lives as long as a test."""

from __future__ import annotations

from pathlib import Path

import trustme

__all__ = ["write_certificate"]


def write_certificate(authority: trustme.CA, folder: Path) -> tuple[Path, Path]:
    """A new one for localhost: the files of its chain and of its key."""
    folder.mkdir(exist_ok=True)
    issued = authority.issue_cert("localhost", "127.0.0.1")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    certificate.write_bytes(b"".join(each.bytes() for each in issued.cert_chain_pems))
    key.write_bytes(issued.private_key_pem.bytes())
    return certificate, key
