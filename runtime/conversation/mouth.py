"""The agent's side of the audio: text pieces are synthesised one ahead, resampled, cut in frames and paced."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Self

import anyio
import numpy as np
import soxr

from runtime.conversation.pacer import FRAME_MS, Pacer
from runtime.dialogue.checkpoint import PieceState
from runtime.dialogue.context import heard_part
from runtime.engines.ports import Samples, SpeechSynthesizer
from runtime.primitives.clock import NS_PER_S, Clock

__all__ = ["Mouth"]

_PIECES_AHEAD: Final = 0
"""Beside the one that is ready while another plays: what is made sooner is thrown away where the caller interrupts, and keeps
those waiting who hear nothing yet."""


@dataclass(slots=True)
class _Piece:
    """`audio_ms` and `frames` are 0 until the piece was synthesised."""

    text: str
    audio_ms: int = 0
    frames: int = 0


class Mouth:
    """Speaks one reply.

    Order: `with mouth:` around everything; in it `say` any number of times, then `finish`; `run` beside them in a task of its
    own, which returns when all was sent.

    Args:
        play: takes each frame of at most 20 ms, PCM16 little-endian at `output_rate_hz`; may wait.
        on_late: called for each frame that left after its play-out time.
    """

    def __init__(
        self,
        synthesizer: SpeechSynthesizer,
        output_rate_hz: int,
        lead_ms: int,
        clock: Clock,
        play: Callable[[bytes], Awaitable[None]],
        on_late: Callable[[], None],
    ) -> None:
        self._synthesizer = synthesizer
        self._rate_hz = output_rate_hz
        self._clock = clock
        self._play = play
        self._on_late = on_late
        self._pacer = Pacer(lead_ms)
        self._pieces: list[_Piece] = []
        self._again: list[_Piece] = []
        self._skip = 0
        self._may_play = anyio.Event()
        self._may_play.set()
        self._stands_by = False
        self._told = 0
        self._is_audible = anyio.Event()

    def __enter__(self) -> Self:
        self._give_text, self._take_text = anyio.create_memory_object_stream[_Piece](64)
        self._give_sound, self._take_sound = anyio.create_memory_object_stream[Samples](_PIECES_AHEAD)
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (self._give_text, self._take_text, self._give_sound, self._take_sound):
            stream.close()

    async def say(self, *texts: str) -> None:
        """Queues sentences or clauses; waits while 64 wait already. All of them are in `state` at once."""
        pieces = [_Piece(text) for text in texts]
        self._pieces += pieces
        for piece in pieces:
            await self._give_text.send(piece)

    @property
    def state(self) -> tuple[tuple[PieceState, ...], int, int]:
        """What `go_on` goes on from: the pieces, frames that have left, milliseconds that were heard."""
        pieces = tuple(PieceState(piece.text, piece.audio_ms, piece.frames) for piece in self._pieces)
        return pieces, self._pacer.sent_frames, self.heard_ms()

    def go_on(self, pieces: Sequence[PieceState], sent_frames: int, heard_ms: int) -> None:
        """Before anything else: another mouth has said so much. What has left wholly is not made again."""
        self._pieces = [_Piece(piece.text, piece.audio_ms, piece.frames) for piece in pieces]
        self._again, self._skip = list(self._pieces), sent_frames
        while self._again and 0 < self._again[0].frames <= self._skip:
            self._skip -= self._again.pop(0).frames
        self._pacer.go_on(sent_frames, heard_ms, self._clock.now_ns())

    def stand_by(self) -> None:
        """Plays nothing until `catch_up`; what is to be said is made meanwhile."""
        self._stands_by = True
        self._may_play = anyio.Event()

    async def wait_until_audible(self) -> None:
        """Returns when there is audio to play, or when nothing is left to say."""
        if self._again:
            await self._is_audible.wait()

    def catch_up(self, told_frames: int, silent_ms: int) -> None:
        """So many frames more have reached the caller, the last one so long ago: they are played again at once, for their order's
        sake, and play-out goes on behind them."""
        self._stands_by = False
        self._told = told_frames
        self._pacer.catch_up(told_frames, silent_ms, self._clock.now_ns())
        if not self._pacer.is_held:
            self._may_play.set()

    async def say_again(self) -> None:
        """Queues what `go_on` left to say."""
        for piece in self._again:
            await self._give_text.send(piece)

    def finish(self) -> None:
        """Nothing more will be said."""
        self._give_text.close()

    async def run(self) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self._synthesize)
            await self._pace()

    def hold(self) -> None:
        """No further frame leaves until `resume`; what is being made goes on being made."""
        self._pacer.hold(self._clock.now_ns())
        self._may_play = anyio.Event()

    def resume(self) -> None:
        """Frames leave again, from where they stopped."""
        self._pacer.resume(self._clock.now_ns())
        if not self._stands_by:
            self._may_play.set()

    def acknowledge(self, played_ms: int) -> None:
        """The caller says how much was really played by now."""
        self._pacer.acknowledge(played_ms, self._clock.now_ns())

    def left_s(self) -> float:
        """How long what was sent still plays, in seconds."""
        return self._pacer.left_ns(self._clock.now_ns()) / NS_PER_S

    @property
    def sent_ms(self) -> int:
        return self._pacer.sent_ms

    @property
    def whole_ms(self) -> int:
        """The sound of all pieces, which fills its last frames only in part: who has played so much has played all."""
        return sum(piece.audio_ms for piece in self._pieces)

    def heard_ms(self) -> int:
        """How much was played out by now, if the caller plays as it comes."""
        return self._pacer.heard_ms(self._clock.now_ns())

    def heard_text(self, heard_ms: int) -> str:
        """What of the text was heard when `heard_ms` of the audio were played."""
        parts: list[str] = []
        left_ms = heard_ms
        for piece in self._pieces:
            if piece.audio_ms <= 0:
                continue  # not made yet, as all behind it; or without a sound: a picture, a mark of layout
            parts.append(heard_part(piece.text, left_ms, piece.audio_ms))
            left_ms -= piece.audio_ms
            if left_ms <= 0:
                break
        return " ".join(part for part in parts if part)

    def _wait_ns(self) -> int:
        return 0 if self._told else self._pacer.wait_ns(self._clock.now_ns())

    async def _synthesize(self) -> None:
        async for piece in self._take_text:
            sound = await self._synthesizer.synthesize(piece.text, is_first=piece is self._pieces[0])
            if self._synthesizer.sample_rate_hz != self._rate_hz and len(sound):
                sound = soxr.resample(sound, self._synthesizer.sample_rate_hz, self._rate_hz)
            piece.audio_ms = len(sound) * 1000 // self._rate_hz
            piece.frames = -(-len(sound) * 1000 // (self._rate_hz * FRAME_MS))
            if len(sound):
                await self._give_sound.send(sound)
        self._give_sound.close()

    async def _pace(self) -> None:
        frame_samples = self._rate_hz * FRAME_MS // 1000
        async for sound in self._take_sound:
            self._is_audible.set()
            pcm = np.ascontiguousarray(sound, dtype="<i2").tobytes()
            for start in range(0, len(pcm), frame_samples * 2):
                if self._skip:
                    self._skip -= 1
                    continue
                # Asked again after each wait: a hold may begin during the sleep, and moves what is due.
                while not self._may_play.is_set() or (wait_ns := self._wait_ns()):
                    await (anyio.sleep(wait_ns / NS_PER_S) if self._may_play.is_set() else self._may_play.wait())
                if self._told:
                    self._told -= 1
                elif self._pacer.leave(self._clock.now_ns()):
                    self._on_late()
                await self._play(pcm[start : start + frame_samples * 2])
        self._is_audible.set()
        # A hold may still keep the last frames from leaving: what is held is not over.
        while not self._may_play.is_set():
            await self._may_play.wait()
