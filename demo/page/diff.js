// What two streams, and two frames, have in common.

/**
 * Aligns two lists of frames. A row has a left frame, a right one or both, and
 * kind is "same", "changed", "taken out" or "added".
 *
 * @param {import("./eventstream.js").Frame[]} left
 * @param {import("./eventstream.js").Frame[]} right
 * @returns {{kind: string, left: object|null, right: object|null}[]}
 */
export function align(left, right) {
  return pairs(left.map(describe), right.map(describe), score).map(([i, j]) => {
    if (j < 0) return { kind: "taken out", left: left[i], right: null };
    if (i < 0) return { kind: "added", left: null, right: right[j] };
    const kind = left[i].raw === right[j].raw ? "same" : "changed";
    return { kind, left: left[i], right: right[j] };
  });
}

/**
 * Compares two texts member by member.
 *
 * @returns {{text: string, differs: boolean}[][]} the pieces of both texts
 */
export function differing(a, b) {
  const cut = (text) => text.match(/[,{}[\]\n]|[^,{}[\]\n]+/g) ?? [];
  const [left, right] = [cut(a), cut(b)];
  const rows = pairs(left, right, (x, y) => (x.trim() === y.trim() ? x.length : 0));
  const side = (tokens, index) => {
    const out = [];
    for (const row of rows) {
      const at = row[index];
      if (at < 0) continue;
      const differs = row[1 - index] < 0;
      const last = out.at(-1);
      if (last?.differs === differs) last.text += tokens[at];
      else out.push({ text: tokens[at], differs });
    }
    return out;
  };
  return [side(left, 0), side(right, 1)];
}

// Pairs the items of two lists, in their order, so that the sum of the scores
// is the highest. Returns pairs of indices; -1 stands for none.
function pairs(a, b, score) {
  // best[i][j] is the sum for a[i…] and b[j…].
  const best = Array.from({ length: a.length + 1 }, () => new Float64Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      const s = score(a[i], b[j]);
      best[i][j] = Math.max(best[i + 1][j], best[i][j + 1], s ? s + best[i + 1][j + 1] : 0);
    }
  }
  const out = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    const s = i < a.length && j < b.length ? score(a[i], b[j]) : 0;
    if (s && best[i][j] === s + best[i + 1][j + 1]) out.push([i++, j++]);
    else if (i < a.length && (j === b.length || best[i][j] === best[i + 1][j])) out.push([i++, -1]);
    else out.push([-1, j++]);
  }
  return out;
}

// How much two frames have in common: 4 for all, 1 for the same thing said
// otherwise, 0 for nothing.
function score(a, b) {
  if (a.raw === b.raw) return 4;
  if (a.kind !== b.kind || a.kind === "") return 0;
  if (a.kind !== "text") return a.value === b.value ? 1 : 0;
  return a.value !== "" && b.value !== "" && (a.value.includes(b.value) || b.value.includes(a.value)) ? 1 : 0;
}

// What a frame is about, for score.
function describe({ raw, data, torn }) {
  const what = (kind, value = "") => ({ raw, kind, value });
  if (torn) return what("");
  let chunk;
  try {
    chunk = JSON.parse(data);
  } catch {
    return what("");
  }
  if (chunk?.tool) return what("tool", `${chunk.tool} ${chunk.label ?? ""}`);
  const choice = chunk?.choices?.[0];
  if (!choice) return what("");
  if (choice.finish_reason) return what("finish");
  return what("text", (choice.delta?.content || choice.delta?.reasoning_content || "").trim());
}
