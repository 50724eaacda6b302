"""An agent's notes on a call: JSON values, so that they come back as they are when the call goes on in another process."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

from runtime.dialogue.agent import Json
from runtime.dialogue.strict_json import problem_of

__all__ = ["Notes", "drop_unsound"]


class Notes(MutableMapping[str, Json]):
    """What an agent sees of `kept`. Raises TypeError, which names the place, for what is no JSON value: a tuple, a set, NaN."""

    __slots__ = ("_kept",)

    def __init__(self, kept: dict[str, Json]) -> None:
        self._kept = kept

    def __getitem__(self, key: str) -> Json:
        return self._kept[key]

    def __setitem__(self, key: str, value: Json) -> None:
        problem = problem_of({key: value}, "memory")
        if problem is not None:
            raise TypeError(problem)
        self._kept[key] = value

    def __delitem__(self, key: str) -> None:
        del self._kept[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def __repr__(self) -> str:
        return f"Notes({len(self._kept)} keys)"  # never a caller's words


def drop_unsound(kept: dict[str, Any]) -> list[str]:
    """Takes out notes that have become no JSON since they were made (a set put in a list, say), and answers what was wrong.

    Any: what must be `Json` and may not be.
    """
    problems = {key: problem_of({key: value}, "memory") for key, value in kept.items()}
    found = {key: problem for key, problem in problems.items() if problem is not None}
    for key in found:
        del kept[key]
    return list(found.values())
