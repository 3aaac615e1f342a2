// The page: one question, two answers.

import { Answer, element, hidden } from "./answer.js";
import { kill, recordings, stream } from "./client.js";
import { Frames } from "./frames.js";
import { Transcript } from "./transcript.js";
import { judge, showVerdict } from "./verdict.js";

const $ = (id) => document.getElementById(id);
const calm = matchMedia("(prefers-reduced-motion: reduce)");

const sides = ["without", "with"].map((name) => ({
  name,
  answer: new Answer($(`${name}-answer`)),
  question: $(`${name}-question`),
  verdict: $(`${name}-verdict`),
  transcript: new Transcript(),
}));
const frames = new Frames($("drawer"), $("frames"), $("tally"));

let chosen = null; // the recording
let run = null; // the run under way or the last one
let pointed = false; // whether the pointer chooses, not the keyboard

// Asks both sides, and shows what comes until both have ended.
async function play() {
  run?.stop.abort();
  const stop = new AbortController();
  const mine = { id: crypto.randomUUID(), recording: chosen, stop, killed: false };
  run = mine;
  for (const side of sides) begin(side);
  say("Both streams are running.");
  const ask = {
    model: chosen.name, prompt: $("prompt").value, run: mine.id,
    speed: $("slow").checked ? 0.25 : 1, signal: stop.signal,
  };
  await Promise.all(sides.map((side) => read(side, ask, mine)));
  if (run !== mine) return;
  disable($("kill"), true);
  // The panes show the facts: only who cannot see them needs them again.
  say("Both answers have ended. ", sides.map((side) => `${label(side)}: ${facts(side, mine).map((f) => f.text).join(", ")}.`).join(" "));
}

function begin(side) {
  side.transcript = new Transcript();
  side.transcript.openWebUI = chosen.openWebUI;
  side.answer.clear();
  side.verdict.replaceChildren(element("li", "neutral", "Streaming…"));
  side.question.textContent = $("prompt").value;
  side.question.hidden = side.question.textContent.trim() === "";
}

// Reads one side to its end.
async function read(side, ask, mine) {
  const { transcript } = side;
  try {
    await stream(side.name, ask, (frame) => {
      if (run !== mine) return;
      transcript.add(frame, performance.now());
      draw();
      // From now on there is something to cut, on both sides.
      disable($("kill"), !sides.every((s) => s.transcript.frames.length) || sides.every((s) => s.transcript.ended));
    });
    transcript.end();
  } catch (error) {
    transcript.end(String(error.message ?? error));
  }
  if (run !== mine) return;
  draw();
  showVerdict(side.verdict, facts(side, mine));
}

function facts({ transcript }, { recording, killed }) {
  // How far a killed run has come, only its streams can say.
  const ran = killed ? sides[1].transcript.tools.length : recording.tools;
  const whole = sides[0].transcript.finish === "stop" && transcript.finish === "stop";
  return judge(transcript, { ran, failed: recording.code !== "" || (killed && !whole) });
}

let drawing = false;

// Draws at the next frame of the screen, and once for all that comes until
// then.
function draw() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    redraw();
  });
}

function redraw() {
  const now = performance.now();
  for (const side of sides) side.answer.show(side.transcript, now);
  frames.show(...sides.map((side) => side.transcript.frames));
}

// Cards that run count the seconds.
setInterval(() => {
  for (const side of sides) side.answer.show(side.transcript, performance.now());
}, 1000);

async function killBackend() {
  if ($("kill").getAttribute("aria-disabled") === "true" || !run) return;
  run.killed = true;
  disable($("kill"), true);
  try {
    await kill(run.id);
  } catch (error) {
    say(`The backend could not be killed: ${error.message}.`);
  }
}

// A button that cannot be used keeps its focus.
function disable(button, off) {
  button.setAttribute("aria-disabled", String(off));
}

function label({ name }) {
  return name === "with" ? "With the sidecar" : "Without the sidecar";
}

// Says what is going on; more is for screen readers alone.
function say(text, more = "") {
  $("status").replaceChildren(text, hidden(more));
}

function choose(recording) {
  chosen = recording;
  $("about").textContent = recording.about;
  $("prompt").value = recording.prompt;
  const release = `Hermes ${recording.release.replace(/^v|\.\d+$/g, "")}`;
  for (const node of document.querySelectorAll(".hermes")) node.textContent = release;
}

function offer(recording, i) {
  const input = element("input");
  Object.assign(input, { type: "radio", name: "recording", value: recording.name, checked: i === 0 });
  input.addEventListener("change", () => {
    choose(recording);
    if (pointed) play();
  });
  return element("label", "chip", input, element("span", "", recording.short));
}

// A click on a recording plays it. Arrow keys walk through all of them, so
// there Enter does.
$("recordings").addEventListener("pointerdown", () => { pointed = true; });
$("recordings").addEventListener("keydown", () => { pointed = false; });
$("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  play();
});
$("prompt").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  $("ask").requestSubmit();
});
$("kill").addEventListener("click", killBackend);

try {
  const offered = await recordings();
  $("recordings").replaceChildren(...offered.map(offer));
  choose(offered[0]);
  // Nothing moves by itself for whoever has asked for calm.
  if (calm.matches) say("Press “Ask both” to play the recording.");
  else play();
} catch (error) {
  say(`The demo does not answer: ${error.message}. Is it still running?`);
}
