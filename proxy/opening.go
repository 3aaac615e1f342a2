package proxy

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// opening is the beginning of an answer to a request for chat completions that is called an event
// stream, as long as no line of it is one of such a stream. If there is none, the answer is something
// else, and passes as what it is (contract section 0). Each byte is looked at once.
type opening struct {
	held   []byte
	line   int         // where the current line begins
	looked int         // how far its end has been looked for
	header http.Header // as it was before it became that of a stream
}

// fields are the fields of an event stream. A comment has no name.
var fields = []string{":", "data", "event", "id", "retry"}

const byteOrderMark = "\ufeff"

// take adds b, and reports whether a line is one of an event stream. Lines with fields that nobody
// knows may be anything.
func (o *opening) take(b []byte) bool {
	o.held = append(o.held, b...)
	if o.line == 0 && bytes.HasPrefix(o.held, []byte(byteOrderMark)) {
		o.line, o.looked = len(byteOrderMark), len(byteOrderMark)
	}
	for {
		end := bytes.IndexAny(o.held[o.looked:], "\r\n")
		if o.inField(end >= 0) {
			return true
		}
		if end < 0 {
			o.looked = len(o.held)
			return false
		}
		o.looked += end + 1
		o.line = o.looked
	}
}

// inField reports whether the current line begins with a field of an event stream. whole says that all
// of the line was read.
func (o *opening) inField(whole bool) bool {
	line := o.held[o.line:]
	for _, name := range fields {
		rest, ok := bytes.CutPrefix(line, []byte(name))
		if ok && (name == ":" || len(rest) > 0 && (rest[0] == ':' || whole && (rest[0] == '\r' || rest[0] == '\n'))) {
			return true
		}
	}
	return false
}

// isBody reports whether what was read is something else than an event stream: it says something,
// and does not end in what may become a field.
func (o *opening) isBody() bool {
	last := o.held[o.line:]
	for _, beginning := range slices.Concat(fields, []string{byteOrderMark}) {
		if len(last) > 0 && strings.HasPrefix(beginning, string(last)) {
			return false
		}
	}
	return len(bytes.TrimSpace(o.body())) > 0
}

// body returns what was read without a byte order mark.
func (o *opening) body() []byte { return bytes.TrimPrefix(o.held, []byte(byteOrderMark)) }

// open returns the bytes with which the stream goes on, as soon as it is known to be one. It
// returns false while it is not, and once the answer passes instead: then it is larger than the part
// that is kept.
func (s *stream) open(b []byte) ([]byte, bool) {
	o := s.opening
	is, large := o.take(b), len(o.held) > s.x.o.Rewrite.FrameLimit()
	switch {
	case is, large && s.x.client.committed: // the client has the header of a stream
		s.opening = nil
		return o.held, true
	case large:
		s.passBody(o.held)
	}
	return nil, false
}

// passBody sends the body, which is no event stream, and lets the rest pass.
func (s *stream) passBody(body []byte) {
	x := s.x
	s.opening.restore(x.client.w.Header())
	s.opening = nil
	x.answer, x.times.phase = &passing{x: x}, phaseFree
	_ = x.client.send(body) // an error shows in x.client.err
}

// restore undoes what made h the header of a stream.
func (o *opening) restore(h http.Header) {
	clear(h)
	maps.Copy(h, o.header)
}

// endBody ends an answer that is no event stream, and is whole: a JSON value is repaired as an
// answer that is not streamed is, anything else loses the secrets that it says.
func (s *stream) endBody() bool {
	x, o := s.x, s.opening
	if x.begun() { // the client has the header of a stream
		r := &report{x: x, status: x.client.status}
		x.answer = r
		_, _ = r.write(o.body()) // it only keeps them
		return r.end(rewrite.CauseEOF)
	}
	body := o.body()
	if !json.Valid(rewrite.Finite(body)) {
		clean := []byte(rewrite.Redact(string(o.held)))
		if !bytes.Equal(clean, o.held) {
			head.DropOfBody(o.header)
		}
		s.passBody(clean)
		return false
	}
	h := x.client.w.Header()
	o.restore(h)
	h.Set("Content-Type", "application/json")
	w := &whole{kept: kept{x: x, body: body, flushed: true}, before: slices.Clone(o.held[:len(o.held)-len(body)]), called: true}
	s.opening, x.answer, x.times.phase = nil, w, phaseWhole
	return w.end(rewrite.CauseEOF)
}
