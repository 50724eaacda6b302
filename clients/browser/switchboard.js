// A spoken call from a web page: the microphone through an AudioWorklet, the agent's voice with flush, captions as events.
//
//   import { Call } from "./switchboard.js";
//   const call = new Call("wss://calls.example/v1/realtime?model=front-desk");
//   call.addEventListener("caption", ({ detail }) => show(detail.who, detail.text, detail.isFinal));
//   button.onclick = () => call.start();      // browsers want a click before they open microphone and loudspeaker
//
// Events of a call (`detail`): `state` ({state}: connecting, listening, hearing, thinking, speaking, ended), `caption` ({who: "caller" or
// "agent", id, text, isFinal}; the text replaces the earlier one of the same id), `interrupted` ({item, playedMs}), `ended` ({code,
// reason}), `problem` ({code, message}), `event` (every event of the OpenAI Realtime protocol as it came).

const RATE_HZ = 24000; // the protocol's only PCM rate
const MOST_WAITING_BYTES = 256 * 1024; // about five seconds of a microphone whose network stands still; older speech is no use

export class Call extends EventTarget {
  #url;
  #socket;
  #context;
  #stream;
  #microphone;
  #captions = new Map();
  #item = "";
  #heard = { item: "", playedMs: 0 };
  #state = "idle";

  /** `url`: ws(s)://HOST/v1/realtime of a balancer or runtime; `model` in its query names the agent. */
  constructor(url) {
    super();
    this.#url = url;
  }

  get state() {
    return this.#state;
  }

  /** The node that the agent's voice leaves from, for meters and recordings; undefined before `start`. */
  output;

  /** Opens microphone, loudspeaker and line. Rejects where the browser or the server refuses one of them, and leaves nothing open. */
  async start({ microphone = { echoCancellation: true, noiseSuppression: true, autoGainControl: true } } = {}) {
    this.#become("connecting");
    try {
      this.#stream = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1, ...microphone } });
      this.#context = new AudioContext({ sampleRate: RATE_HZ, latencyHint: "interactive" });
      const here = new URL(".", import.meta.url);
      await Promise.all(["microphone.js", "playback.js"].map((name) => this.#context.audioWorklet.addModule(new URL(name, here))));
      await this.#context.resume();
      await this.#connect();
      this.#send({ type: "session.update", session: { type: "realtime", audio: { input: { transcription: {} } } } }); // captions early
      const processorOptions = { rateHz: RATE_HZ };
      this.#microphone = new AudioWorkletNode(this.#context, "switchboard-microphone", { numberOfOutputs: 0, processorOptions });
      this.#microphone.port.onmessage = ({ data }) => this.#append(data);
      this.#context.createMediaStreamSource(this.#stream).connect(this.#microphone);
      this.output = new AudioWorkletNode(this.#context, "switchboard-playback", {
        numberOfInputs: 0, outputChannelCount: [1], processorOptions,
      });
      this.output.port.onmessage = ({ data }) => { this.#heard = data; };
      this.output.connect(this.#context.destination);
    } catch (error) {
      this.#close();
      throw error;
    }
    this.#become("listening");
  }

  /** Says goodbye. */
  hangUp() {
    this.#socket?.close(1000);
  }

  /** Says something by keyboard. */
  type(text) {
    this.#send({ type: "conversation.item.create", item: { type: "message", role: "user", content: [{ type: "input_text", text }] } });
    this.#send({ type: "response.create" });
  }

  /** Stops the agent. */
  interrupt() {
    this.#send({ type: "response.cancel" });
    this.#flush();
  }

  /** Sends any event of the protocol. */
  send(event) {
    this.#send(event);
  }

  #connect() {
    return new Promise((resolve, reject) => {
      this.#socket = new WebSocket(this.#url, ["realtime"]);
      this.#socket.onmessage = ({ data }) => this.#hear(JSON.parse(data));
      this.#socket.onopen = resolve;
      // A browser tells a page nothing of why an upgrade was refused.
      this.#socket.onerror = () => reject(new Error(`no call at ${this.#url}: the server cannot be reached or gives no place now`));
      this.#socket.onclose = ({ code, reason }) => {
        this.#close();
        this.#tell("ended", { code, reason });
      };
    });
  }

  #close() {
    this.#stream?.getTracks().forEach((track) => track.stop());
    if (this.#context !== undefined && this.#context.state !== "closed") this.#context.close();
    if (this.#socket !== undefined && this.#socket.readyState < WebSocket.CLOSING) this.#socket.close(1000);
    this.#become("ended");
  }

  #send(event) {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(event));
  }

  #append(samples) {
    if (this.#socket.bufferedAmount > MOST_WAITING_BYTES) return;
    const bytes = new Uint8Array(samples.buffer);
    let text = "";
    for (const byte of bytes) text += String.fromCharCode(byte);
    this.#send({ type: "input_audio_buffer.append", audio: btoa(text) });
  }

  #hear(event) {
    this.#tell("event", event);
    switch (event.type) {
      case "input_audio_buffer.speech_started":
        this.#flush();
        this.#become("hearing");
        break;
      case "input_audio_buffer.committed":
        this.#become("thinking");
        break;
      case "conversation.item.input_audio_transcription.delta":
        this.#caption("caller", event.item_id, (this.#captions.get(event.item_id) ?? "") + event.delta, false);
        break;
      case "conversation.item.input_audio_transcription.completed":
        this.#caption("caller", event.item_id, event.transcript, true);
        break;
      case "conversation.item.deleted":
        this.#caption("caller", event.item_id, "", true);
        break;
      case "response.output_audio_transcript.delta":
      case "response.output_text.delta":
        this.#caption("agent", event.item_id, (this.#captions.get(event.item_id) ?? "") + event.delta, false);
        break;
      case "response.output_audio_transcript.done":
        this.#caption("agent", event.item_id, event.transcript, true);
        break;
      case "response.output_text.done":
        this.#caption("agent", event.item_id, event.text, true);
        break;
      case "response.output_audio.delta":
        this.#play(event.item_id, event.delta);
        break;
      case "response.done":
        if (event.response.status === "cancelled") this.#flush();
        if (this.#state === "speaking" || this.#state === "thinking") this.#become("listening");
        break;
      case "error":
        this.#tell("problem", { code: event.error.code, message: event.error.message });
        break;
    }
  }

  #play(item, base64) {
    const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
    this.#item = item;
    this.output?.port.postMessage({ item, samples: new Int16Array(bytes.buffer) });
    if (this.#state !== "speaking") this.#become("speaking");
  }

  /** Drops what is not played yet, and tells the server how much was. */
  #flush() {
    if (this.#item === "" || this.output === undefined) return;
    const item = this.#item;
    this.#item = "";
    this.output.port.postMessage({ flush: true });
    const playedMs = this.#heard.item === item ? this.#heard.playedMs : 0;
    this.#send({ type: "conversation.item.truncate", item_id: item, content_index: 0, audio_end_ms: playedMs });
    this.#tell("interrupted", { item, playedMs });
  }

  #caption(who, id, text, isFinal) {
    if (isFinal) this.#captions.delete(id);
    else this.#captions.set(id, text);
    this.#tell("caption", { who, id, text, isFinal });
  }

  #become(state) {
    if (state === this.#state) return;
    this.#state = state;
    this.#tell("state", { state });
  }

  #tell(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }
}
