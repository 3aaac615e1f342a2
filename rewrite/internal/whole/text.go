package whole

import (
	"bytes"
	"unicode"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose"
)

// stripper takes the marker lines out of texts.
type stripper struct {
	tools         *marker.Table
	markers       int  // the number of those that were removed
	loneSurrogate bool // a marker has a lone surrogate, which no text can have contained
	text          bool // there was more than marker lines
}

// strip appends the text, the inside of a JSON string, to dst without its marker lines (contract
// sections 1 and 5), of which none begins after last. A line goes with the newlines on both sides,
// but one of them stays if text follows that does not begin with a newline.
//
// The result is the same as in a stream, where a line goes with the newline after it and
// one further newline, and the newline before it stays. Only if there is no further
// newline, the one before the line also goes, unless it keeps two texts apart. A stream
// cannot do that, because it has already sent that newline.
func (s *stripper) strip(dst, text []byte, last int) []byte {
	var (
		f       prose.Fence
		newline jsonspan.Span // the one that ends the line before
		first   bool          // nothing stays before that newline
		lines   int           // how many lines stay
		i, at   int           // text[:i] has been read, and text[:at] copied or removed
	)
	for i <= last && i < len(text) {
		from, more := i, false // whether a further newline goes with the last line
		for to := s.marker(text, i); to > 0 && !f.Open(); to = s.marker(text, i) {
			s.markers++
			s.loneSurrogate = s.loneSurrogate || jsonspan.HasLoneSurrogate(text[i:to])
			i = skipNewline(text, to)
			more = i > to
		}
		if i > from {
			if newline.Ok() && !more && (first || i == len(text)) {
				from = newline.From
			}
			dst, at = append(dst, text[at:from]...), i
			continue
		}
		for newline = (jsonspan.Span{}); i < len(text) && !newline.Ok(); {
			r, next := jsonspan.NextRune(text, i)
			if f.Step(r); r == '\n' {
				newline = jsonspan.Span{From: from + beforeCR(text[from:i]), To: next}
			}
			if i = next; f.MidLine() {
				i = jsonspan.NextNewline(text, i)
			}
		}
		s.text = s.text || jsonspan.HasText(text[from:i])
		first = lines == 0 && newline.From == from
		lines++
	}
	s.text = s.text || jsonspan.HasText(text[i:])
	return append(dst, text[at:]...)
}

// marker returns the index after the line at text[i:], if that line is a marker of a known tool,
// and otherwise 0. It may be indented like a paragraph, by at most three spaces.
func (s *stripper) marker(text []byte, i int) int {
	for indent := 0; i < len(text) && indent < 4; indent++ {
		r, next := jsonspan.NextRune(text, i)
		if r == '`' {
			_, to, _ := s.tools.Line(text, next)
			return to
		}
		if r == '\t' || r == '\n' || !unicode.IsSpace(r) {
			break
		}
		i = next
	}
	return 0
}

// skipNewline returns the index after the newline, LF or CR LF, at text[i:], and i if there is none.
func skipNewline(text []byte, i int) int {
	for n := i; n < len(text); {
		r, next := jsonspan.NextRune(text, n)
		if r == '\n' {
			return next
		}
		if r != '\r' || n > i {
			break
		}
		n = next
	}
	return i
}

// beforeCR returns where the carriage return begins that is the last rune of line, the inside of a
// JSON string, and the length of line if there is none.
func beforeCR(line []byte) int {
	for _, cr := range []string{`\r`, `\u000d`, `\u000D`} {
		rest, ok := bytes.CutSuffix(line, []byte(cr))
		if ok && (len(rest)-len(bytes.TrimRight(rest, `\`)))%2 == 0 { // its backslash is not escaped
			return len(rest)
		}
	}
	return len(line)
}

// mayHaveMarker reports whether b, JSON, may have a marker of a known tool. It is cheap, and errs only
// by returning true.
func mayHaveMarker(b []byte, tools *marker.Table) bool {
	return bytes.Contains(b, []byte(backtick)) || nextMarker(b, 0, tools) >= 0
}

// backtick are the digits of its escape, which are rarer than a backslash.
const backtick = "0060"

// nextMarker returns the first index in b, from i on, at which a marker may begin whose backtick is not
// escaped, or -1 if there is none.
func nextMarker(b []byte, i int, tools *marker.Table) int {
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

// lastMarker returns the index in text, the inside of a JSON string, after which no marker of a known
// tool begins, or -1 if text has none. It is cheap, and errs only by returning more.
func lastMarker(text []byte, tools *marker.Table) int {
	if bytes.Contains(text, []byte(backtick)) {
		return len(text)
	}
	last := -1
	for i := nextMarker(text, 0, tools); i >= 0; i = nextMarker(text, i+1, tools) {
		last = i
	}
	return last
}

// StripMarkers returns a text, the inside of a JSON string, without its marker lines, and
// the number of them.
func StripMarkers(text []byte, tools *marker.Table) ([]byte, int) {
	s := stripper{tools: tools}
	text = s.strip(make([]byte, 0, len(text)), text, lastMarker(text, tools))
	return text, s.markers
}
