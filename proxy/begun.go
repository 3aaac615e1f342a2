package proxy

import (
	"fmt"
	"net/http"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// The answer to a request may begin before upstream has the request, with the header of an event
// stream and frames that Request.Send sends. The header of an exchange has left before its answer is
// chosen if and only if it is one of such a request. Then upstream's event stream continues the
// client's, and each error ends that, whatever status it would have had (contract section 3,
// "Waiting in line").

// MayBegin reports whether Send may begin the answer: the client asks for a stream, and would take one
// without upstream's header.
func (q *Request) MayBegin() bool {
	p := q.params()
	return (p.SessionID != "" || q.form == rewrite.AnswerStream && (q.chat || p.Responses)) && !q.o.Origins.awaits(q.r)
}

// Sent returns when Send has sent the last frames, the zero time if the answer has not begun.
func (q *Request) Sent() time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.begun() {
		return time.Time{}
	}
	return q.since.Add(q.sent)
}

// Waiting returns the writer of frames for Send.
func (q *Request) Waiting() rewrite.WaitingFrames { return q.waiting }

// Send sends frames to the client. The first call begins the answer, also without a frame. Frames
// are lost if the client has left, or the answer has ended.
func (q *Request) Send(frames []byte) {
	q.mu.Lock()
	defer q.unlock()
	first := !q.begun()
	if q.client.err != nil || q.x != nil && q.x.closed || len(frames) == 0 && !first {
		return
	}
	if first {
		q.begin()
	}
	_ = q.client.send(frames) // an error shows in q.client.err
	q.sent = q.age()
}

// begun reports whether Send has begun the answer.
func (q *Request) begun() bool { return q.front != nil }

// begin begins the answer, whose header leaves with the next bytes.
func (q *Request) begin() {
	c := &q.client
	c.status, c.flushed = http.StatusOK, true
	h := c.w.Header()
	q.front = h.Clone()
	if q.front == nil {
		q.front = make(http.Header)
	}
	h.Set("Content-Type", "text/event-stream")
	q.o.dressStream(h)
	q.o.Origins.give(q.r, h)
	if q.o.Observer != nil {
		kind := KindOther
		if q.chat {
			kind = KindChat
		}
		q.observer = q.o.Observer.Begin(q.r, Begun{Since: q.since, Kind: kind, Status: c.status, Header: h, Raw: q.o.ObserveRaw})
	}
}

// report is an answer that is no stream, to a client whose stream has begun: its error ends that.
type report struct {
	x      *exchange
	status int
	body   []byte // at most maxReport+1 bytes
}

// maxReport is the number of bytes of the largest answer that is searched for an error.
const maxReport = 16 << 10

func (r *report) write(b []byte) (int, error) {
	r.body = append(r.body, b[:min(len(b), maxReport+1-len(r.body))]...)
	return len(b), nil
}

func (r *report) flush() error            { return nil }
func (r *report) cut(cause rewrite.Cause) { r.x.sendCause(cause) }

func (r *report) end(rewrite.Cause) bool {
	if len(r.body) > maxReport || !r.x.endBegun(rewrite.CodeAgentError, r.body) {
		r.x.endWithStatus(r.status)
	}
	return true
}

func (r *report) report(*Result) bool { return true }

// endWithStatus ends a stream that has begun, because the answer has the status and does not say
// more.
func (x *exchange) endWithStatus(status int) {
	message := fmt.Sprintf("the answer to the request was not a stream, but had status %d %s", status, http.StatusText(status))
	x.endBegun(rewrite.CodeAgentError, rewrite.AppendError(nil, rewrite.CodeAgentError, message))
}

// endBegun ends a stream that has begun with the error that body says, and records its code. It
// returns false, and does nothing, if body says none.
func (x *exchange) endBegun(code string, body []byte) bool {
	out, ok := x.waiting.Refuse(nil, body)
	if !ok {
		return false
	}
	x.code = code
	x.client.moveDeadline(time.Time{})
	_ = x.client.send(out) // an error shows in x.client.err
	return true
}

// endUnanswered ends a stream that has begun, after the next handler has panicked or returned err
// without an answer.
func (x *exchange) endUnanswered(panicked any, err error) {
	status := 0
	if err != nil {
		status = x.o.ErrorStatus(err)
	}
	switch status {
	case 0, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		cause := causeOf(panicked, err)
		if status == http.StatusGatewayTimeout {
			cause = rewrite.CauseTimeout
		}
		x.sendFailure(status, cause, x.reach.mayRun(status))
	default:
		x.endWithStatus(status)
	}
}
