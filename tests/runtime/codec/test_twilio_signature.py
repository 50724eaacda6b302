"""Only who knows the secret can sign an address."""

from __future__ import annotations

import pytest

from runtime.codec.twilio_signature import is_signed, signature_of

_SECRET = "12345"


@pytest.mark.parametrize("url", ["wss://calls.test/v1/twilio", "wss://calls.test/v1/twilio/", "https://calls.test/v1/twilio"])
def test_a_signed_address_is_taken(url: str) -> None:
    assert is_signed("calls.test", "/v1/twilio", signature_of(url, _SECRET), _SECRET)


@pytest.mark.parametrize(
    ("host", "target", "signature"),
    [
        ("calls.test", "/v1/twilio", ""),
        ("calls.test", "/v1/twilio", "é"),
        ("calls.test", "/v1/twilio", signature_of("wss://calls.test/v1/twilio", "another secret")),
        ("calls.test", "/v1/twilio", signature_of("wss://other.test/v1/twilio", _SECRET)),
        ("calls.test", "/v1/twilio/desk", signature_of("wss://calls.test/v1/twilio", _SECRET)),
        ("calls.test", "/v1/twilio?a=b", signature_of("wss://calls.test/v1/twilio", _SECRET)),
    ],
)
def test_everything_else_is_not(host: str, target: str, signature: str) -> None:
    assert not is_signed(host, target, signature, _SECRET)


def test_the_worked_example_of_the_vendor_s_manual() -> None:
    """They sign this address and form with the token 12345; a form's fields are joined to the address, by name."""
    caller = "+14158675309"
    form = {"CallSid": "CA1234567890ABCDE", "Caller": caller, "Digits": "1234", "From": caller, "To": "+18005551212"}
    url = "https://mycompany.com/myapp.php?foo=1&bar=2" + "".join(name + form[name] for name in sorted(form))
    assert signature_of(url, _SECRET) == "RSOYDt4T1cUTdK1PDd93/VVr8B8="
