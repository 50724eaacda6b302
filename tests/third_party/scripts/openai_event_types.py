"""Runs in an environment that holds only the `openai` SDK: does each server event fit the SDK's own types? Prints what does not.

Argument: a JSON file {"ga": [...], "beta": [...]} of events. A field that the types do not know is reported too.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, get_args

import pydantic
from openai.types.beta.realtime.realtime_server_event import RealtimeServerEvent as BetaServerEvent
from openai.types.realtime.realtime_server_event import RealtimeServerEvent


def _unknown(value: Any, path: str) -> list[str]:
    """Fields that were kept beside those that the types declare."""
    if isinstance(value, pydantic.BaseModel):
        extra = [f"{path}.{name}" for name in (value.model_extra or {})]
        return extra + [each for name in type(value).model_fields for each in _unknown(getattr(value, name), f"{path}.{name}")]
    if isinstance(value, list):
        return [each for index, item in enumerate(value) for each in _unknown(item, f"{path}[{index}]")]
    return []


def _faults(events: list[dict[str, Any]], kind: Any) -> list[str]:
    """Each event against the one type that bears its name."""
    classes = {get_args(each.model_fields["type"].annotation)[0]: each for each in get_args(get_args(kind)[0])}
    faults: list[str] = []
    for event in events:
        if event["type"] not in classes:
            faults.append(f"{event['type']} is unknown")
            continue
        try:
            faults += _unknown(classes[event["type"]].model_validate(event), event["type"])
        except pydantic.ValidationError as error:
            faults.append(f"{event['type']}: {error}"[:1500])
    return faults


if __name__ == "__main__":
    told = json.loads(Path(sys.argv[1]).read_text())
    json.dump({"ga": _faults(told["ga"], RealtimeServerEvent), "beta": _faults(told["beta"], BetaServerEvent)}, sys.stdout)
