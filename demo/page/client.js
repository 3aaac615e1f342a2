// A chat client's part of the wire: asks one side for a completion and reads
// the frames of the answer.

import { EventStreamParser } from "./eventstream.js";

/** Names the run to the backend, so that it can be killed. */
const RUN = "X-Demo-Run";
/** Slows this replay alone. */
const SPEED = "X-Demo-Speed";

/** @returns {Promise<object[]>} the recordings that the backend has */
export async function recordings() {
  const answer = await fetch("recordings.json");
  if (!answer.ok) throw new Error(`the list of recordings: HTTP status ${answer.status}`);
  return answer.json();
}

/**
 * Streams one answer. Returns when it has ended; a broken connection rejects
 * with the browser's error, after all that came before it.
 *
 * @param {"without"|"with"} side
 * @param {{model: string, prompt: string, run: string, speed: number, signal: AbortSignal}} ask
 * @param {(frame: import("./eventstream.js").Frame) => void} each
 */
export async function stream(side, ask, each) {
  const answer = await fetch(`${side}/v1/chat/completions`, {
    method: "POST",
    signal: ask.signal,
    headers: {
      "Content-Type": "application/json",
      Accept: "text/event-stream",
      [RUN]: ask.run,
      [SPEED]: String(ask.speed),
    },
    body: JSON.stringify({
      model: ask.model,
      stream: true,
      messages: [{ role: "user", content: ask.prompt }],
    }),
  });
  if (!answer.ok) throw new Error(await refusal(answer));
  const parser = new EventStreamParser();
  const reader = answer.body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      parser.push(value).forEach(each);
    }
  } finally {
    parser.end().forEach(each);
  }
}

/** Kills the backend of a run. @returns {Promise<number>} connections cut */
export async function kill(run) {
  const answer = await fetch("kill", { method: "POST", headers: { [RUN]: run } });
  if (!answer.ok) throw new Error(await refusal(answer));
  return (await answer.json()).killed;
}

// What an answer that is no stream says.
async function refusal(answer) {
  try {
    const { error } = await answer.json();
    if (error?.message) return `HTTP status ${answer.status}: ${error.message}`;
  } catch {
    // Not JSON: the status has to do.
  }
  return `HTTP status ${answer.status}`;
}
