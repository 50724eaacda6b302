"""The call page in a real browser: it speaks, shows captions, plays audio, and stops when it is interrupted."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from clients.wav_files import write_wav
from perf.fleet import local_fleet
from runtime.engines.hibari import HibariSynthesizer
from runtime.engines.worker import WorkerPool
from tests.support.cable import Cable
from tests.support.chromium import CHROMIUM, chromium_page

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.models,
    pytest.mark.anyio,
    pytest.mark.timeout(240),
    pytest.mark.skipif(not CHROMIUM and "CI" not in os.environ, reason="no Chromium: apt-get install chromium"),
]
_RATE_HZ = 24_000
_METER = """
(() => {
  const meter = window.call.output.context.createAnalyser();
  meter.fftSize = 2048;
  window.call.output.connect(meter);
  window.heard = { loud: 0, silent: 0, peak: 0 };
  const block = new Float32Array(meter.fftSize);
  window.setInterval(() => {
    meter.getFloatTimeDomainData(block);
    for (const value of block) {
      if (Math.abs(value) > 0.01) window.heard.loud++; else window.heard.silent++;
      window.heard.peak = Math.max(window.heard.peak, Math.abs(value));
    }
  }, 40);
  window.interruptions = [];
  window.call.addEventListener('interrupted', ({ detail }) => window.interruptions.push(detail));
  return true;
})()
"""
_STOPPED_BY_THE_PAGE = """
(async () => {  // a runtime that says what is asked of it, and a count of what is played
  window.WebSocket = class {
    static OPEN = 1;
    static CLOSING = 2;
    readyState = 1;
    bufferedAmount = 0;
    constructor() { window.line = this; setTimeout(() => this.onopen()); }
    send() {}
    close() {}
  };
  const { Call } = await import('/call/switchboard.js');
  const call = new Call(`ws://${location.host}/v1/realtime`, { way: "relay" });
  await call.start();
  let played = 0;
  const port = call.output.port, post = port.postMessage.bind(port);
  port.postMessage = (message) => { if (message.samples) played++; post(message); };
  const tell = (event) => window.line.onmessage({ data: JSON.stringify(event) });
  const speak = () => tell({ type: "response.output_audio.delta", item_id: "item", delta: btoa("\\0\\0") });
  const counts = [];
  tell({ type: "response.created" });
  speak();
  counts.push(played);
  call.interrupt();
  speak();  // on its way when the page said stop
  counts.push(played);
  tell({ type: "response.done", response: { status: "cancelled" } });
  speak();
  counts.push(played);
  call.interrupt();
  tell({ type: "error", error: { code: "response_cancel_not_active", message: "" } });
  speak();
  counts.push(played);
  return counts;
})()
"""
_CAPTIONS = "[...document.querySelectorAll('#captions li')].map((line) => [line.className.split(' ')[0], line.textContent])"


def _microphone(file: Path) -> None:
    """Two sentences, the second while the agent still speaks; silence around them."""
    with closing(WorkerPool(1, 4)) as pool:
        voice = HibariSynthesizer(pool)
        story = voice.speak("Please tell me a long story.")
        stop = voice.speak("Please stop now because I have another question for you.")
    quiet = np.zeros(_RATE_HZ, np.int16)
    write_wav(file, np.concatenate([quiet, story, *[quiet] * 6, stop, *[quiet] * 20]), _RATE_HZ)


async def test_a_person_talks_to_the_agent(
    from_wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # requirements V2, O3
    assert CHROMIUM, "apt-get install chromium"
    microphone = tmp_path / "microphone.wav"
    _microphone(microphone)
    ports = ["--public-port", "0", "--operator-port", "0", "--control-port", "0"]
    agent = ["--agent", "story_agent:StoryAgent"]
    (tmp_path / "story_agent.py").write_text(_AGENT)
    monkeypatch.setenv("PYTHONPATH", f"{from_wheel}{os.pathsep}{tmp_path}")
    async with (
        local_fleet(1, tmp_path, balancer_arguments=ports, runtime_arguments=agent) as fleet,
        chromium_page(f"{fleet.public}/call", microphone) as page,
    ):
        await page.run("document.getElementById('start').click()")
        await page.until("window.call && window.call.output !== undefined")
        assert await page.run("window.call.way") == "assign"
        await page.run(_METER)
        await page.until(f"{_CAPTIONS}.some(([who, text]) => who === 'caller' && /story/i.test(text))")
        await page.until(f"{_CAPTIONS}.some(([who, text]) => who === 'agent' && /switchboard/i.test(text))")
        await page.until("window.heard.loud > 24000", 30)  # a second's worth of sound that is no silence
        assert await page.run("window.heard.peak") > 0.05
        (interruption, *_) = await page.until("window.interruptions.length > 0 && window.interruptions", 30)
        assert 500 < interruption["playedMs"] < 20_000
        await page.until(f"{_CAPTIONS}.some(([who, text]) => who === 'agent' && /another question/i.test(text))", 30)
        captions = await page.run(_CAPTIONS)
        assert [who for who, _ in captions][:2] == ["caller", "agent"]
        assert await page.run("document.getElementById('note').textContent") == ""
        await page.run("document.getElementById('stop').click()")
        await page.until("document.getElementById('state').textContent === 'ended'")
        await fleet.wait_for("the session ended", lambda told: told["books"]["ended"] == {"closed_by_caller": 1}, 20)
        assert await page.run(_STOPPED_BY_THE_PAGE) == [1, 1, 2, 3]


_CALL_THAT_COMES_BACK = """
(async () => {
  const { Call } = await import('/call/switchboard.js');
  const call = (window.call = new Call("ws://%s/v1/realtime?model=story", { way: "relay" }));
  window.seen = { ids: [], deltas: "", said: [], states: [], played: 0, typed: 0, ended: undefined };
  call.addEventListener("event", ({ detail }) => {
    window.seen.ids.push(detail.event_id);
    if (detail.type === "response.output_audio_transcript.delta") window.seen.deltas += detail.delta;
    if (detail.type === "response.output_audio_transcript.done") window.seen.said.push(detail.transcript);
    if (detail.type === "conversation.item.added" && detail.item.role === "user") window.seen.typed++;
    if (detail.type === "response.output_audio.delta") window.seen.played += detail.delta.length;
  });
  call.addEventListener("state", ({ detail }) => window.seen.states.push(detail.state));
  call.addEventListener("ended", ({ detail }) => { window.seen.ended = detail; });
  await call.start();
  call.type("tell me a tale");
  return call.way;
})()
"""


async def test_a_page_that_loses_its_network_comes_back(
    from_wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # requirement C4
    microphone = tmp_path / "microphone.wav"
    write_wav(microphone, np.zeros(30 * _RATE_HZ, np.int16), _RATE_HZ)
    ports = ["--public-port", "0", "--operator-port", "0", "--control-port", "0"]
    (tmp_path / "story_agent.py").write_text(_AGENT)
    monkeypatch.setenv("PYTHONPATH", f"{from_wheel}{os.pathsep}{tmp_path}")
    async with (
        local_fleet(1, tmp_path, balancer_arguments=ports, runtime_arguments=["--agent", "story_agent:StoryAgent"]) as fleet,
        Cable(fleet.public.removeprefix("http://")).plugged() as cable,
        chromium_page(f"{fleet.public}/call", microphone) as page,
    ):
        assert await page.run(_CALL_THAT_COMES_BACK % cable.address) == "relay"
        for _ in range(2):
            played = await page.run("window.seen.played")
            await page.until(f"window.seen.played > {played} + 24000", 30)
            cable.unplug()
            await page.until("window.call.state === 'returning'")
            await page.run("window.call.type('while nobody hears')")
            cable.plug()
            await page.until("window.call.state !== 'returning'")
        await page.until("window.seen.said.length >= 1", 60)
        seen = await page.run("window.seen")
        assert "ended" not in seen
        assert len(set(seen["ids"])) == len(seen["ids"]), "nothing came twice"
        assert seen["deltas"].startswith(seen["said"][0]), "nothing is missing"
        assert seen["said"][0].count("Once there was") == 3
        assert seen["typed"] == 3, "what was said while nobody heard it"
        assert (tmp_path / "balancer.log").read_text().count('"caller is back"') == 2
        cable.unplug()
        await page.run("window.call.hangUp()")
        await page.until("window.seen.ended !== undefined")
        assert await page.run("window.call.state") == "ended"


_AGENT = """
class StoryAgent:
    name = "story"
    tools = ()

    async def reply(self, turn):
        lines = 8 * ("story" in turn.text.lower()) or 3 * ("tale" in turn.text.lower())
        if lines:
            for _ in range(lines):
                yield "Once there was a switchboard with a hundred lines, and at each line somebody waited for an answer. "
        else:
            yield f"You said: {turn.text}"
"""
