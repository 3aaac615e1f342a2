package rewrite

import "bytes"

// healText takes the marker lines out of a text, the inside of the JSON string
// at in. Here the whole text is known, so that more can go than from a stream:
// the line goes with the newline on both sides, but of these one stays where
// text follows that does not begin with a newline (contract sections 1 and 5).
//
// As in a stream, a line goes with the newline behind it and one further
// newline, and the newline before it stays. That is the same but where there is
// no further newline: then the newline before the line goes too, unless it
// keeps two texts apart.
func (h *healer) healText(in span) {
	var (
		f      fence
		run    span // marker lines, and the newlines behind them
		before span // the newline before the run
		first  bool // nothing stays before that newline
		extra  bool // a further newline may go
		more   bool // one has gone
		last   span // the last rune that stays, if that is a newline
		kept   int  // how many runes stay
	)
	end := func(atEnd bool) {
		if !run.ok() {
			return
		}
		if before.ok() && !more && (first || atEnd) {
			run.from = before.from
		}
		h.cut(run.from, run.to)
		run = span{}
	}
	text := h.b[:in.to]
	for i := in.from; i < in.to; {
		r, next := nextRune(text, i)
		if extra && r == '\n' {
			extra, more = false, true
			run.to, i = next, next
			continue
		}
		if r == '`' && f.lineStart() && !f.open() {
			if to, ok := h.markerLine(text, next); ok {
				if !run.ok() {
					run, before, first = span{i, i}, last, kept == 1
				}
				h.said.Markers++
				h.lone = h.lone || hasLoneSurrogate(text[i:to])
				extra, more = true, false
				run.to, i = to, to
				continue
			}
		}
		end(false)
		f.step(r)
		extra, last = false, span{}
		if r == '\n' {
			last = span{i, next}
		}
		kept++
		i = next
	}
	end(true)
}

// markerLine tells whether the line whose first rune, a backtick, ends at i is
// the marker of a known tool, and returns where the next line begins. Unlike in
// a stream it may have any length.
func (h *healer) markerLine(text []byte, i int) (next int, ok bool) {
	c := candidate{phase: candidateEmoji, begin: h.begin[:0]}
	for i < len(text) {
		r, next := nextRune(text, i)
		if r == '\n' {
			return next, c.complete()
		}
		ok := c.read(r, h.tools)
		if h.begin = c.begin; !ok {
			return 0, false
		}
		i = next
	}
	return i, c.complete()
}

// suspects tells whether the text at in, the inside of a JSON string, may have
// a marker line. It is cheap, and may be wrong in saying so.
func (h *healer) suspects(in span) bool {
	text := in.of(h.b)
	for i := 0; ; i++ {
		n := bytes.IndexByte(text[i:], '`')
		if n < 0 {
			break
		}
		if i += n; endsLine(text[:i]) && h.begins(text, i+1) {
			return true
		}
	}
	for i := 0; ; i++ { // \u0060, by its rarest byte
		n := bytes.IndexByte(text[i:], '6')
		if n < 0 {
			return false
		}
		if i += n; bytes.HasSuffix(text[:i], []byte(`\u00`)) && bytes.HasPrefix(text[i:], []byte("60")) {
			return true
		}
	}
}

// endsLine tells whether a line may begin behind s: its end looks like that of
// an escaped newline.
func endsLine(s []byte) bool {
	if len(s) == 0 {
		return true
	}
	switch s[len(s)-1] {
	case 'n', 'a', 'A':
		return true
	}
	return false
}

// begins tells whether the emoji of a known tool and a space are at text[i:].
func (h *healer) begins(text []byte, i int) bool {
	if i < len(text) && text[i] != '\\' && !h.tools.first[text[i]] {
		return false
	}
	c := candidate{phase: candidateEmoji, begin: h.begin[:0]}
	for i < len(text) && c.phase == candidateEmoji {
		r, next := nextRune(text, i)
		ok := c.read(r, h.tools)
		if h.begin = c.begin; !ok {
			return false
		}
		i = next
	}
	return c.phase == candidateLabel
}

// stripMarkers takes the marker lines out of a text, the inside of a JSON
// string, and returns it with their number.
func stripMarkers(text []byte, tools *Tools) ([]byte, int) {
	h := healer{reader: reader{b: text}, tools: tools, out: make([]byte, 0, len(text))}
	h.healText(span{0, len(text)})
	return append(h.out, text[h.at:]...), h.said.Markers
}
