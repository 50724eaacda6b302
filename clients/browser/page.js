// The page that the balancer serves: a button, captions, and what the call is doing. The agent is named by `?model=`.
import { Call } from "./switchboard.js";

const element = (id) => document.getElementById(id);
const target = new URL("/v1/realtime", location.href.replace(/^http/, "ws"));
target.search = location.search;

let call;

element("start").onclick = async () => {
  element("note").textContent = "";
  element("captions").replaceChildren();
  call = new Call(target, { way: target.searchParams.get("way") ?? "assign" });
  window.call = call; // for whoever looks from the console
  call.addEventListener("state", ({ detail }) => showState(detail.state));
  call.addEventListener("caption", ({ detail }) => showCaption(detail));
  call.addEventListener("problem", ({ detail }) => note(detail.message));
  call.addEventListener("ended", ({ detail }) => note(detail.code === 1000 ? "" : `The call ended: ${detail.reason || detail.code}.`));
  try {
    await call.start();
  } catch (error) {
    note(error.name === "NotAllowedError" ? "The browser was not allowed to use the microphone." : error.message);
  }
};
element("stop").onclick = () => call.hangUp();
element("interrupt").onclick = () => call.interrupt();
element("typed").onsubmit = (event) => {
  event.preventDefault();
  const text = element("text").value.trim();
  if (text === "") return;
  element("text").value = "";
  showCaption({ who: "caller", id: `typed-${performance.now()}`, text, isFinal: true });
  call.type(text);
};

function showState(state) {
  element("state").textContent = state;
  element("state").dataset.state = state;
  const isOpen = !["idle", "ended", "connecting"].includes(state);
  element("start").disabled = isOpen || state === "connecting";
  for (const id of ["stop", "text", "interrupt"]) element(id).disabled = !isOpen;
}

function showCaption({ who, id, text, isFinal }) {
  let line = document.querySelector(`#captions li[data-id="${CSS.escape(id)}"]`);
  if (line === null) {
    line = document.createElement("li");
    line.dataset.id = id;
    line.className = who;
    element("captions").append(line);
  }
  line.textContent = text;
  line.classList.toggle("open", !isFinal);
  if (isFinal && text === "") line.remove();
  line.scrollIntoView({ block: "nearest" });
}

function note(text) {
  element("note").textContent = text;
}
