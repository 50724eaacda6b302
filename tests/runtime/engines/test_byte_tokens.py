"""Byte-level tokens back to text."""

from __future__ import annotations

import pytest

from runtime.engines.byte_tokens import detokenize


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ([], ""),
        (["Ġten", "Ġof", "Ġcl", "ubs", "."], " ten of clubs."),
        (["<|startoftranscript|>", "Ġhi", "<|endoftext|>"], " hi"),
        (["Ã", "©"], "é"),
        (["âĤ", "¬", "5"], "€5"),
        (["Ã"], "\ufffd"),
        (["a\u4e2d"], "a"),
    ],
)
def test_detokenize(tokens: list[str], text: str) -> None:
    assert detokenize(tokens) == text
