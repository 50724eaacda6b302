"""Settings as frozen dataclasses: one declaration gives the default, the unit, the allowed range, the flag and the help.

Layers are plain mappings from field name to text or value (a file, the environment, the command line), weakest first. Reading
those places is the application's work; this module only merges, converts and validates.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeVar, get_type_hints

from runtime.primitives.errors import SettingError

__all__ = ["Allowed", "environment_layer", "flag_parser", "from_command_line", "resolve", "setting"]

T = TypeVar("T")
_METADATA_KEY: Final = "setting"
_TRUE: Final = frozenset({"1", "true", "yes", "on"})
_FALSE: Final = frozenset({"0", "false", "no", "off"})


@dataclass(frozen=True, slots=True)
class Allowed:
    """The allowed range of a setting: numeric bounds (both inclusive), or a closed list of words."""

    at_least: float | None = None
    at_most: float | None = None
    above: float | None = None
    one_of: tuple[str, ...] = ()
    not_empty: bool = False

    def __str__(self) -> str:
        if self.one_of:
            return " | ".join(self.one_of)
        words = []
        if self.above is not None:
            words.append(f"above {_number(self.above)}")
        if self.at_least is not None:
            words.append(f"at least {_number(self.at_least)}")
        if self.at_most is not None:
            words.append(f"at most {_number(self.at_most)}")
        if self.not_empty:
            words.append("not empty")
        return ", ".join(words) or "any"

    def admits(self, value: object) -> bool:
        if self.one_of and str(value) not in self.one_of:
            return False
        if self.not_empty and not value:
            return False
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            if isinstance(value, float) and not math.isfinite(value):  # NaN compares false with every bound
                return False
            if self.above is not None and not value > self.above:
                return False
            if self.at_least is not None and value < self.at_least:
                return False
            if self.at_most is not None and value > self.at_most:
                return False
        return True


@dataclass(frozen=True, slots=True)
class _Declaration:
    help: str
    unit: str
    allowed: Allowed


def setting(
    default: T,
    help: str,
    *,
    unit: str = "",
    at_least: float | None = None,
    at_most: float | None = None,
    above: float | None = None,
    one_of: Sequence[str] = (),
    not_empty: bool = False,
) -> T:
    """Declares a field of a settings dataclass. `help` says what it is and why the default is what it is."""
    allowed = Allowed(at_least, at_most, above, tuple(one_of), not_empty)
    metadata = {_METADATA_KEY: _Declaration(help, unit, allowed)}
    # The declared type is the field's; dataclasses hand out a Field here and put the value in its place at class creation.
    return dataclasses.field(default=default, metadata=metadata)


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _convert(name: str, value: object, wanted: type, allowed: Allowed) -> object:
    if issubclass(wanted, bool):
        word = str(value).lower()
        if word in _TRUE or word in _FALSE:
            return word in _TRUE
        raise SettingError(name, value, "true | false")
    if wanted is tuple:
        parts = value.split(",") if isinstance(value, str) else value
        if not isinstance(parts, (list, tuple)) or not all(isinstance(part, str) for part in parts):
            raise SettingError(name, value, "a list of words (comma separated)")
        return tuple(part.strip() for part in parts if part.strip())
    if isinstance(value, bool):
        raise SettingError(name, value, str(allowed))
    try:
        if issubclass(wanted, int):
            return int(value) if not isinstance(value, float) else _whole(value)  # type: ignore[call-overload]
        if issubclass(wanted, float):
            return float(value)  # type: ignore[arg-type]
        if issubclass(wanted, StrEnum):
            return wanted(str(value))
    except (TypeError, ValueError, OverflowError):  # the last: an infinity has no whole number, a huge one no float
        raise SettingError(name, value, f"{_kind(wanted)}, {allowed}") from None
    if not isinstance(value, str):
        raise SettingError(name, value, "text")
    return value


def _whole(value: float) -> int:
    if value != int(value):
        raise ValueError(value)
    return int(value)


def _kind(wanted: type) -> str:
    if issubclass(wanted, StrEnum):
        return " | ".join(wanted)
    return "a whole number" if issubclass(wanted, int) else "a number"


def _types(cls: type) -> Mapping[str, type]:
    hints = get_type_hints(cls)
    return {name: getattr(hint, "__origin__", hint) for name, hint in hints.items()}


def _declarations(cls: type) -> Mapping[str, _Declaration]:
    return {field.name: field.metadata[_METADATA_KEY] for field in dataclasses.fields(cls) if _METADATA_KEY in field.metadata}


def resolve(cls: type[T], layers: Sequence[Mapping[str, object]]) -> T:
    """Merges the layers (later ones win), converts and validates every value, and builds the settings.

    Raises SettingError with name, value and allowed range for an unknown name, a value of the wrong kind or out of range.
    """
    declarations = _declarations(cls)
    types = _types(cls)
    values: dict[str, Any] = {}
    for layer in layers:
        for name, value in layer.items():
            if name not in declarations:
                raise SettingError(name, value, "one of " + ", ".join(sorted(declarations)))
            values[name] = _convert(name, value, types[name], declarations[name].allowed)
    for name, value in values.items():
        if not declarations[name].allowed.admits(value):
            raise SettingError(name, value, str(declarations[name].allowed))
    return cls(**values)


def environment_layer(cls: type, environment: Mapping[str, str], prefix: str) -> dict[str, object]:
    """The settings that the environment names, as PREFIX_FIELD_NAME. Other variables are not ours and pass unseen."""
    names = _declarations(cls)
    return {name: environment[key] for name in names if (key := f"{prefix}_{name.upper()}") in environment}


def flag_parser(cls: type, program: str, description: str, prefix: str) -> argparse.ArgumentParser:
    """A parser with one flag a setting; what the user did not give is absent from the parsed namespace."""
    parser = argparse.ArgumentParser(
        prog=program,
        description=description,
        argument_default=argparse.SUPPRESS,
        epilog=f"Every setting can also come from a TOML file (--config) or from the environment ({prefix}_NAME). "
        "Flags win over the environment, the environment over the file.",
    )
    parser.add_argument("--config", metavar="FILE", help="TOML file with settings by name")
    defaults = {field.name: field.default for field in dataclasses.fields(cls)}
    for name, declaration in _declarations(cls).items():
        unit = f" {declaration.unit}" if declaration.unit else ""
        default = defaults[name]
        shown = ",".join(default) if isinstance(default, tuple) else default
        text = f"{declaration.help} [{declaration.allowed}; default: {shown}{unit}]"
        parser.add_argument(f"--{name.replace('_', '-')}", dest=name, metavar="VALUE", help=text.replace("%", "%%"))
    return parser


def from_command_line(
    cls: type[T],
    program: str,
    description: str,
    prefix: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    read_text: Callable[[str], str],
) -> T:
    """The settings from file < environment < flags. Raises SettingError; `--help` and unknown flags exit as argparse does."""
    flags = vars(flag_parser(cls, program, description, prefix).parse_args(arguments))
    path = flags.pop("config", None) or environment.get(f"{prefix}_CONFIG")
    file_layer: Mapping[str, object] = {}
    if path is not None:
        try:
            file_layer = tomllib.loads(read_text(str(path)))
        except (OSError, UnicodeDecodeError) as error:
            raise SettingError("config", path, f"a readable TOML file ({error})") from None
        except ValueError as error:  # tomllib's own error is one; a number of thousands of digits is another
            raise SettingError("config", path, f"a TOML file ({error})") from None
    return resolve(cls, [file_layer, environment_layer(cls, environment, prefix), flags])
