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

// WaitingFrames writes the frames for a client whose request waits in line, so that upstream does not
// have it yet: the beginning of a stream that upstream's frames continue (Params.Continues), or
// its end. The frames do not depend on each other.
//
// In a chat, events have an empty id, which gives way to upstream's: clients take the id of the
// first chunk for that of the completion, and some refuse chunks with another id.
type WaitingFrames struct {
	o *Options
	p Params
}

// NewWaitingFrames returns the WaitingFrames of a response. It uses only those parameters that say what stream
// the response is and which form its events have.
func NewWaitingFrames(o *Options, p *Params) WaitingFrames {
	return WaitingFrames{o, Params{Active: p.Active, Responses: p.Responses, SessionID: p.SessionID, Progress: p.Progress, Created: p.Created}}
}

// Status appends the event hermes.status with the text to dst, in the form in which an event of
// upstream's leaves. If clients would break on the event, it appends a comment or nothing: see the
// contract, "Waiting in line".
func (w WaitingFrames) Status(dst []byte, text string) []byte { return w.status(dst, text, nil) }

// Over is Status for the text that ends the wait. As a status line it is hidden, or it would stay above
// the answer.
func (w WaitingFrames) Over(dst []byte, text string) []byte {
	if !chat.HasStatusLine(w.o, &w.p) {
		return w.Status(dst, text)
	}
	return w.status(dst, text, slices.Concat([]byte(`, "event": `), chat.HiddenStatus(text)))
}

// status appends the event hermes.status with the text and the members after it.
func (w WaitingFrames) status(dst []byte, text string, members []byte) []byte {
	data := slices.Concat([]byte(`{"kind": "lifecycle", "text": `), jsonspan.Quote(text), members, []byte("}\n\n"))
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

// Keepalive appends a keepalive to dst (contract section 3): in a chat a chunk with the envelope
// of the events of Status, unless Options.KeepaliveForm asks for a comment, and in any other
// stream a comment.
func (w WaitingFrames) Keepalive(dst []byte) []byte {
	if !w.p.Active {
		return append(dst, ": keepalive\n\n"...)
	}
	return append(dst, chat.Keepalive(w.o.WithDefaults(), &w.p)...)
}

// Refuse ends the stream with the error in body, which the request got instead of an answer: a
// JSON object whose member error is a string, or an object with a message. It appends the frames
// that the client needs to dst and returns that: the error finish of a chat (contract section 3),
// or the last events of another stream (section 6), without secrets. A status line is hidden. It returns false, and dst as
// it is, if body has no such error, or if the error is too large for a frame.
func (w WaitingFrames) Refuse(dst, body []byte) ([]byte, bool) {
	s := New(w.o, w.p)
	object, message := errorIn(body)
	if message == nil {
		return dst, false
	}
	if s.other == nil {
		frame := chat.Refusal(w.o.WithDefaults(), &w.p, object)
		if len(frame) > s.scan.MaxFrame {
			return dst, false
		}
		return s.Finish(s.Feed(append(dst, chat.HideStatus(w.o.WithDefaults(), &w.p)...), frame, time.Time{}), CauseEOF), true
	}
	s.out.Bytes = dst
	s.other.Refuse(&s.out, message, codeIn(object))
	return s.out.Take(), true
}

// errorIn returns the error in body, a JSON object: an object on one line, and its message, a JSON
// string, which is nil if there is no error.
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
	at := jsonspan.MemberIn(body, "error")
	if message = jsonspan.StringAt(body, at); message != nil {
		return contract.AppendErrorValue(nil, message, contract.CodeAgentError), message
	}
	if !at.IsObject(body) {
		return nil, nil
	}
	return at.Of(body), jsonspan.StringAt(body, jsonspan.MemberOf(body, at, "message"))
}

// codeIn returns the code of the error object, contract.CodeAgentError if it has none.
func codeIn(object []byte) string {
	code := jsonspan.StringAt(object, jsonspan.MemberIn(object, "code"))
	return cmp.Or(jsonspan.Unquote(code), contract.CodeAgentError)
}
