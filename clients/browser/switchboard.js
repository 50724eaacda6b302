// A spoken call from a web page: the microphone through an AudioWorklet, the agent's voice with flush, captions as events.
//
//   import { Call } from "./switchboard.js";
//   const call = new Call("ws://calls.example:8080/v1/realtime?model=front-desk");
//   call.addEventListener("caption", ({ detail }) => show(detail.who, detail.text, detail.isFinal));
//   button.onclick = () => call.start();      // browsers want a click before they open microphone and loudspeaker
//
// Where the address is a balancer's, it is asked for a place and the call goes straight to the runtime; where that cannot be (the runtime
// cannot be reached from here, the page is https and the runtime speaks no TLS, or `{ way: "relay" }` is said), the balancer carries it.
//
// A call that the balancer carries comes back by itself when the network was lost: nothing is lost, and nothing comes twice.
//
// Events of a call (`detail`): `state` ({state}: connecting, listening, hearing, thinking, speaking, returning, ended), `caption` ({who:
// "caller" or "agent", id, text, isFinal}; the text replaces the earlier one of the same id), `interrupted` ({item, playedMs}), `returned`
// ({}), `ended` ({code, reason}), `problem` ({code, message}), `event` (every event of the OpenAI Realtime protocol as it came).

const RATE_HZ = 24000; // the protocol's only PCM rate
const ASSIGN_MS = 5000;
const DIRECT_MS = 3000;
const MOST_WAITING_BYTES = 256 * 1024; // about five seconds of a microphone whose network stands still; older speech is no use
const MOST_KEPT_BYTES = 4 * 1024 * 1024; // of what was said: a minute of a microphone
const RETURN_WITHIN_MS = 30000; // as long as a balancer waits by default
const RETURN_ANSWER_MS = 5000;
const [FIRST_WAIT_MS, LONGEST_WAIT_MS] = [250, 2000];

export class Call extends EventTarget {
  #url;
  #way;
  #taken;
  #socket;
  #context;
  #stream;
  #microphone;
  #captions = new Map();
  #item = "";
  #heard = { item: "", playedMs: 0 };
  #isStopping = false; // the page said stop, and what the runtime sent before it heard of it may still come
  #state = "idle";
  #key = ""; // opens the call again; empty: it cannot be
  #received = 0; // messages of the server
  #said = 0;
  #kept = []; // {number, text} of what was said
  #keptBytes = 0;
  #unsaidBytes = 0; // while the connection is lost
  #isOver = false;

  /** `url`: ws(s)://HOST/v1/realtime of a balancer or runtime; `model` in its query names the agent. `way`: "assign" or "relay". */
  constructor(url, { way = "assign" } = {}) {
    super();
    this.#url = new URL(url, location.href);
    this.#way = way;
  }

  /** The way that the call took: "assign" or "relay"; undefined before it is there. */
  get way() {
    return this.#taken;
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
    this.#isOver = true;
    this.#socket?.close(1000);
    if (this.#state === "returning") this.#end(1000, "");
  }

  /** Says something by keyboard. */
  type(text) {
    this.#send({ type: "conversation.item.create", item: { type: "message", role: "user", content: [{ type: "input_text", text }] } });
    this.#send({ type: "response.create" });
  }

  /** Stops the agent. */
  interrupt() {
    this.#isStopping = true;
    this.#send({ type: "response.cancel" });
    this.#flush();
  }

  /** Sends any event of the protocol. */
  send(event) {
    this.#send(event);
  }

  async #connect() {
    const place = this.#way === "assign" ? await this.#assigned() : undefined;
    if (place !== undefined) {
      try {
        this.#taken = "assign";
        return await this.#open(place, DIRECT_MS);
      } catch {
        // It cannot be reached from here. The place that is held there is the relay's as well, under its name.
      }
    }
    this.#taken = "relay";
    const relay = new URL(this.#url);
    if (place !== undefined) relay.searchParams.set("session_id", place.searchParams.get("session_id"));
    if (!relay.searchParams.has("session_id")) relay.searchParams.set("session_id", `sess_${randomWord()}`);
    this.#key = randomWord();
    relay.searchParams.set("resume_key", this.#key);
    this.#url = relay;
    return this.#open(relay);
  }

  /** The runtime's address with the ticket of a place there; undefined where the call has to go to `url` itself. */
  async #assigned() {
    if (this.#url.protocol !== "ws:" || location.protocol === "https:") return undefined;
    const query = this.#url.searchParams;
    const needs = Object.fromEntries([["agent", query.get("model")], ["session_id", query.get("session_id")]].filter(([, value]) => value));
    try {
      const address = new URL("/v1/assignments", this.#url.href.replace(/^ws/, "http"));
      const answer = await fetch(address, { method: "POST", body: JSON.stringify(needs), signal: AbortSignal.timeout(ASSIGN_MS) });
      if (answer.status !== 201) return undefined; // no balancer, or no place: the upgrade's answer is the one to be told
      const given = await answer.json();
      const place = new URL(given.websocket_url);
      for (const [name, value] of [...query, ["session_id", given.session_id], ["ticket", given.ticket]]) place.searchParams.set(name, value);
      return place;
    } catch {
      return undefined; // another origin's page may not read the answer
    }
  }

  #open(url, withinMs) {
    return new Promise((resolve, reject) => {
      let isOpen = false;
      const socket = (this.#socket = new WebSocket(url, ["realtime"]));
      if (withinMs !== undefined) setTimeout(() => isOpen || socket.close(), withinMs); // a firewall may swallow the attempt
      this.#socket.onmessage = ({ data }) => this.#take(data);
      this.#socket.onopen = () => {
        isOpen = true;
        resolve();
      };
      // A browser tells a page nothing of why an upgrade was refused.
      this.#socket.onerror = () => reject(new Error(`no call at ${this.#url.origin}: the server cannot be reached or gives no place now`));
      this.#socket.onclose = ({ code, reason }) => {
        if (!isOpen || socket !== this.#socket) return;
        if (code === 1006 && this.#key !== "" && !this.#isOver) this.#comeBack(); // lost: nobody said goodbye
        else this.#end(code, reason);
      };
    });
  }

  #end(code, reason) {
    if (this.#state === "ended") return;
    this.#close();
    this.#tell("ended", { code, reason });
  }

  #take(data) {
    this.#received += 1;
    this.#hear(JSON.parse(data));
  }

  async #comeBack() {
    const before = this.#state;
    const untilMs = performance.now() + RETURN_WITHIN_MS;
    this.#unsaidBytes = 0;
    this.#become("returning");
    for (let waitMs = FIRST_WAIT_MS; !this.#isOver; waitMs = Math.min(2 * waitMs, LONGEST_WAIT_MS)) {
      try {
        await this.#openAgain();
        this.#become(before === "speaking" ? "speaking" : "listening");
        this.#tell("returned", {});
        return;
      } catch {
        if (performance.now() + waitMs > untilMs) return this.#end(1006, "the connection was lost, and did not come back");
        await new Promise((resolve) => setTimeout(resolve, waitMs));
      }
    }
  }

  /** Another connection to the same call. What either side has not had is said on it. */
  #openAgain() {
    return new Promise((resolve, reject) => {
      const url = new URL(this.#url);
      url.searchParams.set("received", this.#received);
      const socket = new WebSocket(url, ["realtime"]);
      const giveUp = () => {
        socket.close();
        reject(new Error("no answer"));
      };
      const timer = setTimeout(giveUp, RETURN_ANSWER_MS);
      socket.onclose = giveUp;
      socket.onmessage = ({ data }) => {
        const { received } = JSON.parse(data); // switchboard.resumed, which is no message of the call
        clearTimeout(timer);
        if (this.#isOver || received + 1 < (this.#kept[0]?.number ?? this.#said + 1)) return giveUp();
        this.#socket = socket;
        socket.onmessage = (event) => this.#take(event.data);
        socket.onclose = ({ code, reason }) => {
          if (code === 1006 && !this.#isOver) this.#comeBack();
          else this.#end(code, reason);
        };
        for (const { number, text } of this.#kept) if (number > received) socket.send(text);
        resolve();
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
    const isOpen = this.#socket?.readyState === WebSocket.OPEN;
    if (!isOpen && (this.#key === "" || this.#state === "ended")) return;
    const text = JSON.stringify(event);
    this.#said += 1;
    if (this.#key !== "") {
      this.#kept.push({ number: this.#said, text });
      this.#keptBytes += text.length;
      while (this.#keptBytes > MOST_KEPT_BYTES) this.#keptBytes -= this.#kept.shift().text.length;
    }
    if (isOpen && this.#state !== "returning") this.#socket.send(text); // else it is said when the call is back
    else if (this.#state === "returning") this.#unsaidBytes += text.length;
  }

  #append(samples) {
    if ((this.#state === "returning" ? this.#unsaidBytes : this.#socket.bufferedAmount) > MOST_WAITING_BYTES) return;
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
        if (!this.#isStopping) this.#play(event.item_id, event.delta); // else it was on its way when the page said stop
        break;
      case "response.created":
        this.#isStopping = false;
        break;
      case "response.done":
        this.#isStopping = false;
        if (event.response.status === "cancelled") this.#flush();
        if (this.#state === "speaking" || this.#state === "thinking") this.#become("listening");
        break;
      case "error":
        if (event.error.code === "response_cancel_not_active") this.#isStopping = false;
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

function randomWord() {
  return Array.from(crypto.getRandomValues(new Uint8Array(24)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
