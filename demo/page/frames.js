// The drawer with the raw frames of both sides.

import { element, hidden } from "./answer.js";
import { align, differing } from "./diff.js";

// What matters in a frame that is the same on both sides, or on one alone.
const POINT = /"delta":\s*\{[^}]*\}|"finish_reason":\s*"[^"]*"|"error":\s*\{[^}]*\}|"tool":[^\n]*|\[DONE\]/g;

/** The drawer; it is filled while it is open. */
export class Frames {
  #drawer;
  #list;
  #tally;
  #sides = [[], []];

  constructor(drawer, list, tally) {
    this.#drawer = drawer;
    this.#list = list;
    this.#tally = tally;
    drawer.addEventListener("toggle", () => this.#fill());
  }

  /** Shows the frames of both sides as they are now. */
  show(left, right) {
    this.#sides = [left, right];
    this.#fill();
  }

  #fill() {
    const rows = align(...this.#sides);
    const n = (kind) => rows.filter((row) => row.kind === kind).length;
    this.#tally.textContent = rows.length
      ? `${n("same")} the same, ${n("changed")} changed, ${n("taken out")} taken out, ${n("added")} added`
      : "";
    if (this.#drawer.open) this.#list.replaceChildren(...rows.map(item));
  }
}

function item({ kind, left, right }) {
  const [l, r] = kind === "changed" ? changed(left.raw, right.raw) : [left, right].map((f) => f && plain(f.raw));
  return element("li", kind.replace(" ", "-"),
    element("span", "kind", left?.torn || right?.torn ? `${kind}, torn` : kind),
    cell("without", l), cell("with", r));
}

function cell(side, content) {
  if (!content) return element("div", "cell none", hidden(`nothing ${side} the sidecar`));
  return element("div", "cell", hidden(`${side} the sidecar: `), element("pre", "", ...content));
}

function changed(left, right) {
  return differing(left.trimEnd(), right.trimEnd()).map((pieces) =>
    pieces.map(({ text, differs }) => (differs ? element("mark", "", text) : text)));
}

function plain(raw) {
  const text = raw.trimEnd();
  const out = [];
  let from = 0;
  for (const match of text.matchAll(POINT)) {
    out.push(text.slice(from, match.index), element("b", "", match[0]));
    from = match.index + match[0].length;
  }
  out.push(text.slice(from));
  return out;
}
