// Shows a transcript as a chat client would: text, tool cards, folded
// reasoning, errors. Whatever came over the wire is written as text, never as
// HTML.

import { pieces } from "./leaks.js";

/** Makes an element; children are elements or text. */
export function element(name, className, ...children) {
  const node = document.createElement(name);
  if (className) node.className = className;
  node.append(...children.filter((c) => c !== ""));
  return node;
}

/** Text for a screen reader alone. */
export function hidden(text) {
  return element("span", "visually-hidden", text);
}

/** An ornament that a screen reader leaves out. */
export function ornament(className, text = "") {
  const node = element("span", className, text);
  node.setAttribute("aria-hidden", "true");
  return node;
}

/** An answer in a pane. */
export class Answer {
  #root;
  #views = []; // one for each block: {node, update}
  #failure = null;

  constructor(root) {
    this.#root = root;
  }

  /** Empties the pane; it is busy until done. */
  clear() {
    this.#views = [];
    this.#failure = null;
    this.#root.replaceChildren();
    this.#root.setAttribute("aria-busy", "true");
    this.#root.classList.add("streaming");
  }

  /** Shows a transcript as it is at now, in milliseconds. */
  show(transcript, now) {
    transcript.blocks.forEach((block, i) => {
      if (!this.#views[i]) {
        this.#views[i] = view(block);
        this.#root.append(this.#views[i].node);
      }
      this.#views[i].update(block, now);
    });
    const failure = transcript.error ?? (transcript.broken ? { message: transcript.broken, code: "" } : null);
    if (failure && !this.#failure) {
      this.#failure = failed(failure, Boolean(transcript.error));
      this.#root.append(this.#failure);
    }
    if (!transcript.ended) return;
    if (this.#root.childElementCount === 0) this.#root.append(element("p", "nothing", "(an empty answer)"));
    this.#root.setAttribute("aria-busy", "false");
    this.#root.classList.remove("streaming");
  }
}

function view(block) {
  if (block.tool) return card(block.tool);
  if (block.status) return { node: element("p", "nothing", block.status), update() {} };
  if ("reasoning" in block) return thoughts();
  return prose();
}

// A stretch of text. What has leaked into it is marked.
function prose() {
  const node = element("div", "text");
  let shown = "";
  return {
    node,
    update({ text }) {
      if (text === shown) return;
      shown = text;
      node.replaceChildren(...pieces(paragraphs(text)).map((p) => (p.leak ? leaked(p) : p.text)));
    },
  };
}

function leaked(piece) {
  const node = element("mark", `leak ${piece.leak}`, piece.text);
  node.append(ornament("what", piece.leak === "marker" ? "tool marker" : piece.leak));
  return node;
}

// Paragraphs are one blank line apart, as they are in Markdown.
function paragraphs(text) {
  return text.replace(/^\n+/, "").replace(/\n{3,}/g, "\n\n");
}

// A tool card. How long it has been running is not for screen readers, whom
// it would interrupt every second.
function card(tool) {
  const time = ornament("time");
  const state = element("span", "state");
  const title = element("span", "title", element("b", "", tool.name), " ", element("code", "", tool.label));
  const node = element("div", "card running", ornament("emoji", tool.emoji), title, state);
  let completed = false;
  state.append(ornament("spinner"), "running ", time);
  return {
    node,
    update(_, now) {
      if (!tool.ended) {
        time.textContent = seconds(now - tool.started, 0);
        return;
      }
      if (completed) return;
      completed = true;
      const [kind, sign, word] = tool.interrupted ? ["interrupted", "–", "interrupted after"] : ["completed", "✓", "completed in"];
      node.className = `card ${kind}`;
      state.replaceChildren(ornament("tick", sign), `${word} ${seconds(tool.ended - tool.started, 1)}`);
    },
  };
}

// Reasoning, folded away.
function thoughts() {
  const text = element("div", "text");
  const node = element("details", "reasoning", element("summary", "", "Reasoning"), text);
  return {
    node,
    update({ reasoning }) {
      if (text.textContent !== reasoning) text.textContent = reasoning;
    },
  };
}

// The end of an answer that failed: as the server said so, or as the browser
// noticed.
function failed({ message, code }, said) {
  const node = element("div", said ? "failure said" : "failure", ornament("sign", "!"));
  const text = element("p", "", element("b", "", "Error: "), message);
  if (code) text.append(" ", element("code", "", code));
  node.append(text);
  return node;
}

function seconds(ms, digits) {
  return `${(Math.max(ms, 0) / 1000).toFixed(digits)} s`;
}
