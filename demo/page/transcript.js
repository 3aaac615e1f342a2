// What a chat client makes of a stream. It is the same for both panes: it
// knows nothing of the sidecar, only of OpenAI's chunks and Hermes' tool events.

const TOOL_EVENT = "hermes.tool.progress";

/**
 * @typedef {object} Tool
 * @property {string} id     "" when the event had none
 * @property {string} name
 * @property {string} emoji
 * @property {string} label
 * @property {number} started  in milliseconds
 * @property {number} ended    0 while it runs
 * @property {boolean} interrupted  the stream's end ended it, too
 */

/** A piece of the answer is {text}, {reasoning}, {tool} or {status}. */
export class Transcript {
  /** Whether the client is Open WebUI: it knows cards and status lines instead of Hermes' events. */
  openWebUI = false;
  blocks = [];
  frames = [];
  /** The finish reason, "" while there is none. */
  finish = "";
  /** The error that the server reported: {message, code}. */
  error = null;
  /** Whether [DONE] has come. */
  done = false;
  /** Whether the stream is over. */
  ended = false;
  /** What ended the stream when it did not end cleanly. */
  broken = "";

  /** Takes in a frame that arrived at a time in milliseconds. */
  add(frame, now) {
    this.frames.push(frame);
    if (frame.torn || !frame.hasData) return;
    if (frame.data === "[DONE]") {
      this.done = true;
      return;
    }
    const chunk = parse(frame.data);
    if (chunk === null) return;
    if (chunk.error && !this.error) {
      this.error = { message: String(chunk.error.message ?? ""), code: String(chunk.error.code ?? "") };
    }
    if (frame.event === TOOL_EVENT || chunk.toolCallId) {
      if (!this.openWebUI || chunk.item) this.#tool(chunk, now);
      return;
    }
    const status = this.openWebUI && chunk.event?.data?.description;
    if (status) this.blocks.push({ status });
    for (const choice of Array.isArray(chunk.choices) ? chunk.choices : []) {
      this.#append("reasoning", choice.delta?.reasoning_content);
      this.#append("text", choice.delta?.content);
      if (choice.finish_reason) this.finish = choice.finish_reason;
    }
  }

  /** Takes in the end of the stream; broken is "" for a clean one. */
  end(broken = "") {
    this.ended = true;
    this.broken = broken;
  }

  /** The text of the whole answer. */
  get text() {
    return this.blocks.map((b) => b.text ?? "").join("");
  }

  /** @returns {Tool[]} */
  get tools() {
    return this.blocks.filter((b) => b.tool).map((b) => b.tool);
  }

  #append(kind, piece) {
    if (typeof piece !== "string" || piece === "") return;
    const last = this.blocks.at(-1);
    if (last && kind in last) last[kind] += piece;
    else this.blocks.push({ [kind]: piece });
  }

  // Opens a card or completes it. An event without an id can only open one.
  #tool(chunk, now) {
    const id = chunk.toolCallId ?? "";
    const known = id && this.tools.find((t) => t.id === id);
    if (chunk.status === "completed") {
      if (known && !known.ended) {
        known.ended = now;
        known.interrupted = chunk.interrupted === true; // nobody knows whether it has ended itself
      }
      return;
    }
    if (known) return;
    const tool = { id, name: chunk.tool ?? "tool", emoji: chunk.emoji ?? "", label: chunk.label ?? "", started: now, ended: 0, interrupted: false };
    this.blocks.push({ tool });
  }
}

function parse(data) {
  try {
    const value = JSON.parse(data);
    return typeof value === "object" ? value : null;
  } catch {
    return null;
  }
}
