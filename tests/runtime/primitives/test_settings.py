"""Settings: layers, conversion, and refusals that name the setting, its value and the allowed range."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from runtime.primitives.errors import SettingError
from runtime.primitives.load_snapshot import CostClass
from runtime.primitives.settings import environment_layer, flag_parser, from_command_line, resolve, setting


@dataclass(frozen=True, slots=True)
class Example:
    limit: int = setting(8, "sessions", at_least=1, at_most=1000)
    target: float = setting(0.8, "share", above=0.0, at_most=1.0)
    mode: str = setting("a", "mode", one_of=("a", "b"))
    direct: bool = setting(False, "allow")
    tags: tuple[str, ...] = setting((), "tags")
    cost: CostClass = setting(CostClass.OWNED, "class")


def test_later_layers_win() -> None:
    made = resolve(Example, [{"limit": 9, "target": 0.5}, {"limit": "10"}, {"mode": "b", "direct": "yes", "tags": "x, y"}])
    assert made == Example(limit=10, target=0.5, mode="b", direct=True, tags=("x", "y"))


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        ({"limit": 0}, ["limit", "0", "at least 1", "at most 1000"]),
        ({"limit": "many"}, ["limit", "'many'", "a whole number"]),
        ({"limit": 1.5}, ["limit", "1.5"]),
        ({"limit": True}, ["limit", "True"]),
        ({"limit": float("inf")}, ["limit", "inf", "a whole number"]),
        ({"limit": "9" * 400}, ["limit", "999", "at most 1000"]),
        ({"limit": "9" * 5000}, ["limit", "999", "a whole number"]),
        ({"target": 10**400}, ["target", "a number", "at most 1"]),
        ({"target": "nan"}, ["target", "nan", "above 0"]),
        ({"target": 0}, ["target", "above 0"]),
        ({"mode": "c"}, ["mode", "a | b"]),
        ({"direct": "perhaps"}, ["direct", "true | false"]),
        ({"cost": "free"}, ["cost", "owned | on_demand | spot"]),
        ({"colour": 1}, ["colour", "one of", "limit"]),
        ({"tags": 3}, ["tags", "a list of words"]),
    ],
)
def test_a_bad_value_is_refused_by_name_value_and_range(layer: dict[str, object], words: list[str]) -> None:
    with pytest.raises(SettingError) as caught:
        resolve(Example, [layer])
    for word in words:
        assert word in str(caught.value)


def test_environment_and_flags_make_layers() -> None:
    environment = {"SB_LIMIT": "3", "SB_OTHER": "x", "HOME": "y"}
    assert environment_layer(Example, environment, "SB") == {"limit": "3"}
    parsed = vars(flag_parser(Example, "example", "An example.", "SB").parse_args(["--target", "0.7"]))
    assert parsed == {"target": "0.7"}
    help_text = flag_parser(Example, "example", "An example.", "SB").format_help()
    assert "--limit" in help_text
    assert "at least 1, at most 1000" in help_text


@pytest.mark.parametrize("text", ["limit = ", "limit = " + "9" * 5000])
def test_a_file_that_cannot_be_read_as_toml_is_refused(text: str) -> None:
    with pytest.raises(SettingError, match=r"'config' is 'f'.*a TOML file"):
        from_command_line(Example, "example", "An example.", "SB", ["--config", "f"], {}, lambda _: text)
