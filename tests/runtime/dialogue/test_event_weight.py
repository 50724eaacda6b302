"""What a bound on memory counts."""

from __future__ import annotations

from runtime.dialogue.agent_events import Echoed, ReplyText, SessionConfigured, SpeechStarted
from runtime.dialogue.event_weight import weight_of
from runtime.dialogue.session_settings import ClientTool, SessionSettings


def test_all_text_of_an_event_counts_wherever_it_stands() -> None:
    assert weight_of(ReplyText(1, "x" * 100)) == 100
    plain = weight_of(SessionConfigured(SessionSettings("a")))
    tools = (ClientTool("t", "d" * 1_000, "{}"),)
    assert weight_of(SessionConfigured(SessionSettings("a", tools=tools, metadata={"k": "v"}))) == plain + 1_005
    assert weight_of(Echoed({"kept": ["x" * 50]})) == 54
    assert weight_of(SpeechStarted("", 5)) == 0
