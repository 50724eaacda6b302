"""Items: each has its own id and names its predecessor."""

from __future__ import annotations

from runtime.dialogue.items import Items


def test_items_form_a_chain() -> None:
    items = Items()
    assert items.open() == "item_0001"
    assert items.add() == ("item_0002", "")
    assert items.commit() == ("item_0001", "item_0002")
    assert items.add("mine") == ("mine", "item_0001")
    assert items.commit() == ("item_0003", "mine")


def test_a_forgotten_item_is_not_committed() -> None:
    items = Items()
    items.open()
    items.forget_open()
    assert items.open_id == ""
    assert items.commit() == ("item_0002", "")
