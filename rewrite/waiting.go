package rewrite

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chat"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// Waiting writes what a client is sent whose request waits, so that upstream does not have it yet:
// the beginning of a stream that upstream's frames continue (Params.Continues), or its end. Its
// frames do not depend on each other.
//
// No event of a chat has an id of its own: clients take that of the first chunk for the completion's,
// and some refuse chunks with another one. An empty one gives way to upstream's.
type Waiting struct {
	o *Options
	p Params
}

// NewWaiting returns the Waiting of a response with the parameters, of which those count that say
// what stream it is and which form its events have.
func NewWaiting(o *Options, p *Params) Waiting {
	return Waiting{o, Params{Active: p.Active, Responses: p.Responses, SessionID: p.SessionID, Progress: p.Progress, Created: p.Created}}
}

// Status appends the event hermes.status with the text to dst, in the form that upstream's own
// leaves in. Where that would break clients it is a comment, or nothing: see the contract, "Waiting
// in line".
func (w Waiting) Status(dst []byte, text string) []byte {
	data := slices.Concat([]byte(`{"kind": "lifecycle", "text": `), jsonspan.Quote(text), []byte("}\n\n"))
	form := w.o.ProgressForm(&w.p)
	switch {
	case w.p.Active && form == ProgressOff:
		return dst
	case w.p.Responses, w.p.Active && form == ProgressComment:
		return append(append(dst, ": "+chat.StatusEvent+" "...), data...)
	}
	event := append([]byte("event: "+chat.StatusEvent+"\ndata: "), data...)
	return New(w.o, w.p).Feed(dst, event, time.Time{})
}

// Keepalive appends a keepalive to dst (contract section 3): in a chat a chunk of the envelope that
// Status gives its events, unless the option says that it is a comment.
func (w Waiting) Keepalive(dst []byte) []byte {
	s := New(w.o, w.p)
	if s.other != nil {
		return append(dst, ": keepalive\n\n"...)
	}
	s.out.Bytes = dst
	s.chat.Idle()
	return s.out.Take()
}

// Refuse ends the stream with the error that the request got instead of an answer: body, a JSON
// object whose member error is a string, or an object with a message. It appends what the client
// needs to dst and returns that: the error finish of a chat (contract section 3), or the last events
// of another stream (section 6), without secrets. It returns false, and dst as it is, if body says
// no such thing, or is larger than a frame.
func (w Waiting) Refuse(dst, body []byte) ([]byte, bool) {
	s := New(w.o, w.p)
	object, message := errorIn(body)
	if message == nil {
		return dst, false
	}
	if s.other == nil {
		frame := s.chat.Refusal(object)
		if len(frame) > s.scan.MaxFrame {
			return dst, false
		}
		return s.Finish(s.Feed(dst, frame, time.Time{}), CauseEOF), true
	}
	s.out.Bytes = dst
	s.other.Refuse(&s.out, message, codeIn(object))
	return s.out.Take(), true
}

// errorIn returns the error that body, a JSON object, says, as an object on one line, and its
// message, a JSON string, which is nil for no error.
func errorIn(body []byte) (object, message []byte) {
	body = bytes.Map(func(r rune) rune { // a string has no line ends
		if r == '\n' || r == '\r' {
			return ' '
		}
		return r
	}, body)
	if !jsonspan.Valid(body) {
		return nil, nil
	}
	at := jsonspan.MemberOf(body, jsonspan.Span{From: jsonspan.SkipSpace(body, 0), To: len(body)}, "error")
	if message = jsonspan.StringAt(body, at); message != nil {
		return contract.AppendErrorValue(nil, message, contract.CodeAgentError), message
	}
	if !at.IsObject(body) {
		return nil, nil
	}
	return at.Of(body), jsonspan.StringAt(body, jsonspan.MemberOf(body, at, "message"))
}

// codeIn returns the code of the error object, or that of an agent that gives none.
func codeIn(object []byte) string {
	code := jsonspan.StringAt(object, jsonspan.MemberOf(object, jsonspan.Span{To: len(object)}, "code"))
	return cmp.Or(jsonspan.Unquote(string(code)), contract.CodeAgentError)
}
