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
func (s *stripper) text(in jsonspan.Span) {
	text := s.b[:in.To]
	last := in.From - 1 // no marker begins after it
	if bytes.Contains(text[in.From:], []byte(escapedTick)) {
		last = in.To
	}
	for i := nextOpening(text, in.From, s.tools); i >= 0 && last < in.To; i = nextOpening(text, i+1, s.tools) {
		last = i
	}
	var (
		f       prose.Fence
		run     jsonspan.Span // marker lines, and the newlines after them
		newline jsonspan.Span // the one before the run, or the one that ends the line before
		first   bool          // nothing stays before that newline
		more    bool          // a further newline goes with the last line of the run
		lines   int           // how many lines stay
	)
	end := func(atEnd bool) {
		if newline.Ok() && !more && (first || atEnd) && run.Ok() {
			run.From = newline.From
		}
		if run.Ok() {
			s.cut(run.From, run.To)
		}
		run = jsonspan.Span{}
	}
	for i := in.From; i < in.To; {
		if i > last && !run.Ok() {
			s.left = s.left || jsonspan.HasText(text[i:])
			return
		}
		if to := s.marker(text, i); to > 0 && !f.Open() {
			if s.markers++; !run.Ok() {
				run.From = i
			}
			s.loneSurrogate = s.loneSurrogate || jsonspan.HasLoneSurrogate(text[i:to])
			run.To, more = to, false
			if to < in.To {
				if r, next := jsonspan.NextRune(text, to); r == '\n' {
					run.To, more = next, true
				}
			}
			i = run.To
			continue
		}
		end(false)
		from := i
		for newline = (jsonspan.Span{}); i < in.To && !newline.Ok(); {
			r, next := jsonspan.NextRune(text, i)
			if f.Step(r); r == '\n' {
				newline = jsonspan.Span{From: i, To: next}
			}
			s.left = s.left || !unicode.IsSpace(r)
			if i = next; f.MidLine() {
				i = jsonspan.NextNewline(text, i)
			}
		}
		first = lines == 0 && newline.From == from
		lines++
	}
	end(true)
}

// marker returns where the line after the one at text[i:] begins, if that is a marker of a known
// tool, and otherwise 0.
func (s *stripper) marker(text []byte, i int) int {
	if r, next := jsonspan.NextRune(text, i); r == '`' {
		if _, to, ok := s.tools.Line(text, next); ok {
			return to
		}
	}
	return 0
}

// mayHaveMarkers reports whether there may be a marker of a known tool in b, JSON or the inside of
// a string: a backtick before an emoji, or one that is written as an escape. It is cheap, and errs
// only by returning true.
func mayHaveMarkers(b []byte, tools *marker.Table) bool {
	return bytes.Contains(b, []byte(escapedTick)) || nextOpening(b, 0, tools) >= 0
}

// escapedTick are the digits of the escape of a backtick, which are rarer than backslashes.
const escapedTick = "0060"

// nextOpening returns the index of the first backtick in b[i:] that is before the emoji of a known
// tool, or -1 if there is none. It does not see those that are written as escapes.
func nextOpening(b []byte, i int, tools *marker.Table) int {
	for ; ; i++ {
		n := bytes.IndexByte(b[i:], '`')
		if n < 0 {
			return -1
		}
		i += n
		if next, _ := tools.Opening(b, i+1); next > 0 {
			return i
		}
	}
}

// StripMarkers returns a text, the inside of a JSON string, without its marker lines, and
// the number of them.
func StripMarkers(text []byte, tools *marker.Table) ([]byte, int) {
	s := stripper{copier: copier{b: text}, tools: tools}
	s.text(jsonspan.Span{From: 0, To: len(text)})
	return s.rest(), s.markers
}
