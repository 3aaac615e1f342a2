// What belongs to the machine but stands in the text: tool markers, reasoning
// between tags and keys.

// A marker is a line such as `💻 ls -la`: the first word is an emoji.
const MARKER = /^`([^\s`]+) .*`$/;
const LEAK = /<(think|thinking|reasoning|thought|REASONING_SCRATCHPAD)>[^]*?(?:<\/\1>|$)|\bsk-\w{16,}/g;

/**
 * Cuts text into pieces and says of each what has leaked: "" for none,
 * "marker", "thoughts" or "key". The pieces together are the text.
 *
 * @returns {{text: string, leak: string}[]}
 */
export function pieces(text) {
  const out = [];
  let from = 0;
  for (const match of text.matchAll(LEAK)) {
    out.push(...lines(text.slice(from, match.index)));
    out.push({ text: match[0], leak: match[1] ? "thoughts" : "key" });
    from = match.index + match[0].length;
  }
  out.push(...lines(text.slice(from)));
  return out;
}

/** Counts the leaks in text: {markers, thoughts, keys}. */
export function leaks(text) {
  const all = pieces(text);
  const count = (kind) => all.filter((p) => p.leak === kind).length;
  return { markers: count("marker"), thoughts: count("thoughts"), keys: count("key") };
}

// Text in which each marker is a piece of its own.
function lines(text) {
  const out = [];
  for (const line of text.split(/(\n)/)) {
    if (line === "") continue;
    const match = MARKER.exec(line);
    const leak = match && /[^\x00-\x7f]/.test(match[1]) ? "marker" : "";
    const last = out.at(-1);
    if (last && !leak && !last.leak) last.text += line;
    else out.push({ text: line, leak });
  }
  return out;
}
