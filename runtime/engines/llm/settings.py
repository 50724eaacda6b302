"""Where the language model is and how long it may take: from the environment, since an agent is made without arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from runtime.primitives.errors import SettingError

__all__ = ["LlmSettings"]

_PREFIX: Final = "SWITCHBOARD_LLM_"
_INSTRUCTIONS: Final = (
    "You are a friendly assistant on the telephone. Answer in one or two short spoken sentences, without lists, markup or emoji."
)


@dataclass(frozen=True, slots=True)
class LlmSettings:
    """Raises SettingError where a value is impossible.

    Attributes:
        url: of the API, without `/chat/completions`: https://HOST/v1, or http:// for a server of one's own.
        model: its name there.
        api_key: sent as a bearer token; empty: none. Only ever from the environment, and in no log, error or representation.
        instructions: the system message where a session brings none.
        first_token_s: how long the first word may take before the caller is told that it takes a moment.
        gap_s: how long any word may take before the reply is given up.
        most_tokens: of one reply.
    """

    url: str
    model: str
    api_key: str = field(default="", repr=False)
    instructions: str = _INSTRUCTIONS
    first_token_s: float = 2.5
    gap_s: float = 10.0
    most_tokens: int = 300

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SettingError(_PREFIX + "URL", self.url, "http:// or https:// with a host, for example http://127.0.0.1:8085/v1")
        if not self.model:
            raise SettingError(_PREFIX + "MODEL", self.model, "the model's name at that address")
        for name, value, low, high in (
            ("FIRST_TOKEN_S", self.first_token_s, 0.05, 60.0),
            ("GAP_S", self.gap_s, 0.05, 120.0),
            ("MOST_TOKENS", self.most_tokens, 1, 4_000),
        ):
            if not low <= value <= high:
                raise SettingError(_PREFIX + name, value, f"{low:g} to {high:g}")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> LlmSettings:
        """SWITCHBOARD_LLM_URL and _MODEL are needed; _API_KEY, _INSTRUCTIONS, _FIRST_TOKEN_S, _GAP_S, _MOST_TOKENS are not."""
        found = {name.removeprefix(_PREFIX): value for name, value in environment.items() if name.startswith(_PREFIX)}
        known = {"URL", "MODEL", "API_KEY", "INSTRUCTIONS", "FIRST_TOKEN_S", "GAP_S", "MOST_TOKENS"}
        for name in sorted(found.keys() - known):
            raise SettingError(_PREFIX + name, "set", f"one of {', '.join(_PREFIX + allowed for allowed in sorted(known))}")
        return cls(
            url=found.get("URL", ""),
            model=found.get("MODEL", ""),
            api_key=found.get("API_KEY", ""),
            instructions=found.get("INSTRUCTIONS", _INSTRUCTIONS),
            first_token_s=_number(found, "FIRST_TOKEN_S", 2.5),
            gap_s=_number(found, "GAP_S", 10.0),
            most_tokens=int(_number(found, "MOST_TOKENS", 300)),
        )


def _number(found: Mapping[str, str], name: str, default: float) -> float:
    text = found.get(name)
    if text is None:
        return default
    try:
        return float(text)
    except ValueError:
        raise SettingError(_PREFIX + name, text, "a number") from None
