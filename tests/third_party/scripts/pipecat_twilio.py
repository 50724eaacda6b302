"""Runs in an environment that holds only `pipecat-ai`: its Twilio serializer says what it makes of what the far end sends.

Argument: a JSON file {"messages": [texts from Twilio], "pcm": base64 of PCM16 at 8000 Hz}. Prints what was read, and what it
would send.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from pathlib import Path
from typing import Any

from loguru import logger
from pipecat.frames.frames import InputAudioRawFrame, InputDTMFFrame, InterruptionFrame, OutputAudioRawFrame, StartFrame
from pipecat.serializers.twilio import TwilioFrameSerializer


async def _compare(messages: list[str], pcm: bytes) -> dict[str, Any]:
    parameters = TwilioFrameSerializer.InputParams(auto_hang_up=False, sample_rate=8_000)
    serializer = TwilioFrameSerializer(stream_sid="MZ1", params=parameters)
    await serializer.setup(StartFrame(audio_in_sample_rate=8_000, audio_out_sample_rate=8_000))
    read: list[dict[str, str]] = []
    for message in messages:
        frame = await serializer.deserialize(message)
        if isinstance(frame, InputAudioRawFrame):
            read.append({"audio": base64.b64encode(frame.audio).decode()})
        elif isinstance(frame, InputDTMFFrame):
            read.append({"digit": frame.button.value})
    audio = await serializer.serialize(OutputAudioRawFrame(audio=pcm, sample_rate=8_000, num_channels=1))
    clear = await serializer.serialize(InterruptionFrame())
    return {"read": read, "audio": json.loads(str(audio)), "clear": json.loads(str(clear))}


if __name__ == "__main__":
    logger.remove()
    given = json.loads(Path(sys.argv[1]).read_text())
    json.dump(asyncio.run(_compare(given["messages"], base64.b64decode(given["pcm"]))), sys.stdout)
