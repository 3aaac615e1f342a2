// What a chat client made of a stream, in three facts: text, tools, end.

import { element, hidden, ornament } from "./answer.js";
import { leaks } from "./leaks.js";

/**
 * Judges a transcript that has ended.
 *
 * @param {import("./transcript.js").Transcript} t
 * @param {{ran: number, failed: boolean}} truth  how many tools really ran,
 *   and whether the agent really failed
 * @returns {{good: boolean|null, text: string}[]}  null is neither
 */
export function judge(t, truth) {
  return [text(t), tools(t, truth.ran), end(t, truth.failed)];
}

function text(t) {
  const { markers, thoughts, keys } = leaks(t.text);
  const wrong = [];
  if (markers) wrong.push(count(markers, "tool marker"));
  if (thoughts) wrong.push("thoughts");
  if (keys) wrong.push("a key");
  if (wrong.length) return bad(capital(`${wrong.join(" and ")} in the text`));
  return t.text.trim() === "" ? neutral("No text") : good("Clean text");
}

function tools(t, ran) {
  const shown = t.tools.length;
  const open = t.tools.filter((tool) => !tool.ended).length;
  if (shown === 0) return ran ? bad(`No tool card, though ${count(ran, "tool")} ran`) : neutral("No tools");
  if (open === 1 && shown === 1) return bad("Its card spins forever");
  if (open) return bad(`${open} of ${count(shown, "card")} ${open === 1 ? "spins" : "spin"} forever`);
  if (shown !== ran) return bad(`${count(shown, "card")}, though ${count(ran, "tool")} ran`);
  const cut = t.tools.filter((tool) => tool.interrupted).length;
  if (cut) return good(shown === 1 ? "1 tool, interrupted" : `${shown} tools, ${cut} interrupted`);
  return good(shown === 1 ? "1 tool, completed" : `${shown} tools, all completed`);
}

function end(t, failed) {
  if (t.error) {
    const text = `Ends in an error that says why${t.error.code ? `: ${t.error.code}` : ""}`;
    return failed ? good(text) : bad(text);
  }
  if (t.broken) return bad("Breaks off without saying why");
  if (failed) return bad(`The agent crashed, and it says “${t.finish || "nothing"}”`);
  return t.finish && t.done ? good(`Ends in “${t.finish}”`) : bad("No end");
}

const good = (text) => ({ good: true, text });
const bad = (text) => ({ good: false, text });
const neutral = (text) => ({ good: null, text });

function count(n, noun) {
  return `${n} ${noun}${n === 1 ? "" : "s"}`;
}

function capital(text) {
  return text[0].toUpperCase() + text.slice(1);
}

/** Shows facts as the items of a list. */
export function showVerdict(list, facts) {
  list.replaceChildren(...facts.map((fact) => {
    const [kind, sign, word] = fact.good === null ? ["neutral", "–", ""] : fact.good ? ["good", "✓", "Good: "] : ["bad", "✗", "Bad: "];
    return element("li", kind, ornament("sign", sign), element("span", "", hidden(word), fact.text));
  }));
}
