// The event stream as the WHATWG HTML standard defines it, cut into frames.
//
// A frame is one block of the stream: the lines up to and including a blank
// one. Its raw text is kept, so that all frames together are the stream.

/**
 * @typedef {object} Frame
 * @property {string} raw    the text as it arrived
 * @property {string} event  the last event field, "" for none
 * @property {string} data   the data fields, joined with line feeds
 * @property {boolean} hasData  whether there was a data field
 * @property {boolean} torn  whether the stream ended before the blank line:
 *                           the standard discards such a frame
 */

/** Reads bytes, cut anywhere, and returns the frames that they complete. */
export class EventStreamParser {
  // ignoreBOM keeps the mark, which belongs to the raw text.
  #decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  #frame = empty();
  #last = null; // the frame before
  #line = "";
  #atStart = true; // no line has ended yet: a byte order mark may come
  #afterCR = false; // the last line ended in CR: a line feed belongs to it

  /** @param {Uint8Array} bytes @returns {Frame[]} */
  push(bytes) {
    return this.#read(this.#decoder.decode(bytes, { stream: true }));
  }

  /** Ends the stream. @returns {Frame[]} what is left, which is torn */
  end() {
    const frames = this.#read(this.#decoder.decode());
    if (this.#frame.raw !== "") frames.push({ ...this.#frame, torn: true });
    this.#frame = empty();
    return frames;
  }

  #read(text) {
    const frames = [];
    for (const c of text) {
      const second = c === "\n" && this.#afterCR;
      this.#afterCR = c === "\r";
      if (second) {
        // The frame that its CR has ended may have left already.
        (this.#frame.raw === "" && this.#last ? this.#last : this.#frame).raw += c;
        continue;
      }
      this.#frame.raw += c;
      if (c !== "\n" && c !== "\r") {
        this.#line += c;
        continue;
      }
      if (this.#endLine()) {
        this.#last = this.#frame;
        frames.push(this.#last);
        this.#frame = empty();
      }
    }
    return frames;
  }

  // Takes in a whole line and says whether it was blank.
  #endLine() {
    let line = this.#line;
    this.#line = "";
    if (this.#atStart) {
      this.#atStart = false;
      if (line.startsWith("\uFEFF")) line = line.slice(1);
    }
    if (line === "") return true;
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    let value = colon < 0 ? "" : line.slice(colon + 1);
    if (value.startsWith(" ")) value = value.slice(1);
    if (name === "event") this.#frame.event = value;
    if (name === "data") {
      this.#frame.data = this.#frame.hasData ? this.#frame.data + "\n" + value : value;
      this.#frame.hasData = true;
    }
    return false;
  }
}

function empty() {
  return { raw: "", event: "", data: "", hasData: false, torn: false };
}
