"""Whether a request comes from Twilio: its signature over the address that was called, with the account's secret.

The header `X-Twilio-Signature` is base64 of HMAC-SHA1, key: the account's auth token, text: the full URL (Twilio, "Validating
requests are coming from Twilio").
"""

from __future__ import annotations

import base64
import hashlib
import hmac

__all__ = ["is_signed", "signature_of"]


def signature_of(url: str, auth_token: str) -> str:
    """
    >>> signature_of("wss://example.test/v1/twilio", "secret")
    'KVQhGlyImt8TdvRbqbEkS6N2rIY='
    """
    return base64.b64encode(hmac.new(auth_token.encode(), url.encode(), hashlib.sha1).digest()).decode()


def is_signed(host: str, target: str, signature: str, auth_token: str) -> bool:
    """Args: `host` and `target` (path and query) as the caller's request has them. TLS may end before us: the scheme is Twilio's.

    Twilio has signed stream addresses with and without a slash at the end; either is taken.
    """
    path, mark, query = target.partition("?")
    paths = {path, path.rstrip("/"), path.rstrip("/") + "/"}
    urls = [f"{scheme}://{host}{each}{mark}{query}" for scheme in ("wss", "https") for each in sorted(paths)]
    given = signature.encode()
    return any(hmac.compare_digest(signature_of(url, auth_token).encode(), given) for url in urls)
