package whole

import (
	"bytes"
	"unicode"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose"
)

// text takes the marker lines out of the text at in (contract sections 1 and 5). A line goes
// with the newlines on both sides, but one of them stays if text follows that does not begin
// with a newline.
//
// The result is the same as in a stream, where a line goes with the newline after it and
// one further newline, and the newline before it stays. Only if there is no further
// newline, the one before the line goes, too, unless it keeps two texts apart. A stream
// cannot do that, because it has already sent that newline.
func (h *healer) text(in jsonspan.Span) {
	var (
		f      prose.Fence
		run    jsonspan.Span // marker lines, and the newlines after them
		before jsonspan.Span // the newline before the run
		first  bool          // nothing stays before that newline
		extra  bool          // a further newline may go
		more   bool          // a further newline has gone
		last   jsonspan.Span // the last rune that stays, if that is a newline
		kept   int           // how many runes stay
	)
	end := func(atEnd bool) {
		if !run.Ok() {
			return
		}
		if before.Ok() && !more && (first || atEnd) {
			run.From = before.From
		}
		h.cut(run.From, run.To)
		run = jsonspan.Span{}
	}
	text, lastMark := h.b[:in.To], in.To // no marker begins after lastMark
	if !h.escapes {
		lastMark = -1
		for i := h.nextMark(text, in.From); i >= 0; i = h.nextMark(text, i+1) {
			lastMark = i
		}
	}
	for i := in.From; i < in.To; {
		if i > lastMark && !run.Ok() {
			h.left = h.left || jsonspan.HasText(text[i:])
			return
		}
		r, next := jsonspan.NextRune(text, i)
		if extra && r == '\n' {
			extra, more = false, true
			run.To, i = next, next
			continue
		}
		if r == '`' && f.LineStart() && !f.Open() {
			if _, to, ok := h.tools.Line(text, next); ok {
				if !run.Ok() {
					run, before, first = jsonspan.Span{From: i, To: i}, last, kept == 1
				}
				h.req.Markers++
				h.loneSurrogate = h.loneSurrogate || jsonspan.HasLoneSurrogate(text[i:to])
				extra, more = true, false
				run.To, i = to, to
				continue
			}
		}
		end(false)
		f.Step(r)
		extra, last = false, jsonspan.Span{}
		if r == '\n' {
			last = jsonspan.Span{From: i, To: next}
		}
		kept++
		h.left = h.left || !unicode.IsSpace(r)
		if i = next; f.MidLine() {
			i = jsonspan.NextNewline(text, i)
		}
	}
	end(true)
}

// nextMark returns the index of the first backtick in b[i:] that may begin a marker of a known
// tool, or -1 if there is none. It does not see backticks that are written as escapes.
func (h *healer) nextMark(b []byte, i int) int {
	for {
		n := bytes.IndexByte(b[i:], '`')
		if n < 0 {
			return -1
		}
		i += n
		if next, _ := h.tools.Opening(b, i+1); next > 0 {
			return i
		}
		i++
	}
}

// mayEscapeTick reports whether a backtick may be written as \u0060 in b, the JSON of strings.
// It looks for the digits alone, which are rarer than backslashes.
func mayEscapeTick(b []byte) bool { return bytes.Contains(b, []byte("0060")) }

// StripMarkers returns a text, the inside of a JSON string, without its marker lines, and
// the number of them.
func StripMarkers(text []byte, tools *marker.Table) ([]byte, int) {
	h := healer{copier: copier{b: text}, tools: tools, escapes: mayEscapeTick(text)}
	h.text(jsonspan.Span{From: 0, To: len(text)})
	return h.rest(), h.req.Markers
}
