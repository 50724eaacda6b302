"""Where the model is: from the environment, checked, and the key nowhere else."""

from __future__ import annotations

import pytest

from runtime.engines.llm.settings import LlmSettings
from runtime.primitives.errors import SettingError

_GOOD = {"SWITCHBOARD_LLM_URL": "http://127.0.0.1:1/v1", "SWITCHBOARD_LLM_MODEL": "small", "PATH": "/bin"}


def test_what_is_needed_and_what_is_not() -> None:
    settings = LlmSettings.from_environment({**_GOOD, "SWITCHBOARD_LLM_API_KEY": "secret", "SWITCHBOARD_LLM_GAP_S": "3"})
    assert (settings.url, settings.model, settings.gap_s) == ("http://127.0.0.1:1/v1", "small", 3.0)
    assert "secret" not in repr(settings)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"SWITCHBOARD_LLM_URL": ""}, "SWITCHBOARD_LLM_URL"),
        ({"SWITCHBOARD_LLM_URL": "ftp://host"}, "SWITCHBOARD_LLM_URL"),
        ({"SWITCHBOARD_LLM_MODEL": ""}, "SWITCHBOARD_LLM_MODEL"),
        ({"SWITCHBOARD_LLM_GAP_S": "soon"}, "SWITCHBOARD_LLM_GAP_S"),
        ({"SWITCHBOARD_LLM_FIRST_TOKEN_S": "0"}, "SWITCHBOARD_LLM_FIRST_TOKEN_S"),
        ({"SWITCHBOARD_LLM_MOST_TOKENS": "0"}, "SWITCHBOARD_LLM_MOST_TOKENS"),
        ({"SWITCHBOARD_LLM_KEY": "secret"}, "SWITCHBOARD_LLM_KEY"),
    ],
)
def test_what_is_impossible_is_named(change: dict[str, str], named: str) -> None:
    with pytest.raises(SettingError) as caught:
        LlmSettings.from_environment({**_GOOD, **change})
    assert caught.value.name == named
    assert "secret" not in str(caught.value)
