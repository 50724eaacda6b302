"""What a Realtime session remembers is bounded."""

from __future__ import annotations

from runtime.codec.realtime_memory import RealtimeMemory


def test_the_oldest_items_go_by_number() -> None:
    memory = RealtimeMemory()
    for number in range(1_200):
        memory.keep({"id": f"i{number}"})
    assert memory.item("i199") is None
    assert memory.item("i200") is not None


def test_the_oldest_items_go_by_size() -> None:
    memory = RealtimeMemory()
    for number in range(40):
        memory.keep({"id": f"i{number}", "content": [{"type": "input_text", "text": "x" * 16_384}]})
    kept = [number for number in range(40) if memory.item(f"i{number}") is not None]
    assert kept == list(range(40 - len(kept), 40))
    assert 10 <= len(kept) <= 16


def test_an_item_in_its_newer_form_counts_once() -> None:
    memory = RealtimeMemory()
    for _ in range(100):
        memory.keep({"id": "i", "content": [{"type": "input_text", "text": "x" * 16_384}]})
    memory.keep({"id": "other"})
    assert memory.item("i") is not None
    memory.forget("i")
    memory.forget("i")
    assert memory.item("i") is None


def test_calls_and_replies_are_known_by_name() -> None:
    memory = RealtimeMemory()
    memory.is_reply("item_2_2", 4, "item_2")
    assert (memory.root_of("item_2_2"), memory.root_of("item_1")) == ("item_2", "item_1")
    memory.call_opened("c", 4)
    memory.outputs["c"] = "1"
    memory.calls_over()
    assert memory.knows_call("c")
    assert not memory.open_calls
    assert not memory.outputs
    assert memory.waiting_generation == 0
