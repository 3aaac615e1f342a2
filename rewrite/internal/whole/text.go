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
		lastMark = in.From + bytes.LastIndexByte(in.Of(h.b), '`')
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
			if to, ok := h.line.ReadWhole(text, next, h.tools); ok {
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

// mayHaveMarker reports whether a backtick and the emoji of a known tool are in b, which has
// no escaped backticks.
func (h *healer) mayHaveMarker() bool {
	for i := 0; ; {
		n := bytes.IndexByte(h.b[i:], '`')
		if n < 0 {
			return false
		}
		if i += n + 1; h.line.OpensAt(h.b, i, h.tools) {
			return true
		}
	}
}

// hasEscapedTick reports whether a backtick is written as an escape in b, the JSON of strings.
func hasEscapedTick(b []byte) bool { return bytes.Contains(b, []byte(`\u0060`)) }

// StripMarkers returns a text, the inside of a JSON string, without its marker lines, and
// the number of them.
func StripMarkers(text []byte, tools *marker.Table) ([]byte, int) {
	h := healer{copier: copier{b: text}, tools: tools, escapes: hasEscapedTick(text)}
	h.text(jsonspan.Span{From: 0, To: len(text)})
	return h.rest(), h.req.Markers
}
