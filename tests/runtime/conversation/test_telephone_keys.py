"""Keys on a telephone, as entries: what was pressed elsewhere belongs to the entry, once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from runtime.conversation.telephone_keys import TelephoneKeys


@pytest.mark.parametrize(("elsewhere", "here", "entry"), [("42", "#", "42"), ("4", "2#", "42"), ("", "7#", "7")])
def test_an_entry_goes_on_where_another_process_left_it(elsewhere: str, here: str, entry: str) -> None:
    done: list[str] = []
    waits: list[Callable[[], Awaitable[None]]] = []
    keys = TelephoneKeys(waits.append, done.append)
    keys.go_on(elsewhere)
    assert keys.pending == elsewhere
    assert len(waits) == bool(elsewhere), "the wait for the next key begins anew"
    for key in here:
        keys.press(key)
    assert done == [entry]
