package proxy

import (
	"bytes"
	"net/http"
	"strconv"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// completedHeader is the header in which an upstream says whether its agent has ended well. An
// upstream that sends it reports its failures itself (contract section 3, third rule of "false
// stop").
const completedHeader = "X-Hermes-Completed"

// SidecarHeader is the header in which an answer that is examined has Options.Announce (contract
// section 0): each event stream, each answer that is not streamed and may be an agent's, and what
// is answered instead of either.
const SidecarHeader = "X-Hermes-Sidecar"

// announce says in the header h of an answer that it is examined. Of two sidecars, the one in front
// says so.
func (o *Options) announce(h http.Header) {
	if o.Announce != "" {
		h.Set(SidecarHeader, o.Announce)
	}
}

// passing is an answer that passes byte for byte. No deadline applies to it, and it
// is written and flushed without the lock.
type passing struct {
	x       *exchange
	encoded bool    // a stream that upstream has compressed although it was asked not to
	status  *status // of a run, nil for none
}

// pass sends the header, and makes the answer pass from then on.
func (x *exchange) pass(encoded bool) {
	x.answer, x.times.phase = &passing{x, encoded, statusIn(x)}, phaseFree
	x.client.commit()
}

func (a *passing) write(b []byte) (int, error) {
	if a.status != nil {
		a.status.read(b)
	}
	return a.x.client.w.Write(b)
}

func (a *passing) flush() error         { return http.NewResponseController(a.x.client.w).Flush() }
func (*passing) cut(rewrite.Cause)      {}
func (*passing) end(rewrite.Cause) bool { return false }

func (a *passing) report(res *Result) bool {
	if a.encoded {
		res.Outcome = OutcomeEncoded
	}
	return a.encoded && a.x.chat
}

// whole is an answer that is not streamed: a JSON object that may be a chat completion, a
// response or the answer of a session. It is kept until it is whole, because only then
// it shows whether the agent failed; its header is held with it.
type whole struct {
	kept
	before []byte         // a byte order mark that leaves before the body
	called bool           // upstream has called it an event stream
	done   rewrite.Answer // the result
}

// write keeps b. The answer passes from then on if it is too large, does not begin like an object
// (some gateways break the silence with white space), or goes on after the object (JSON lines are
// read one by one).
func (w *whole) write(b []byte) (int, error) {
	if !w.add(b) || w.large() {
		if err := w.release(); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

func (w *whole) cut(cause rewrite.Cause) { w.x.sendCause(cause) }

// end sends the repaired answer. An answer that broke off is sent as far as it came: it fails as it
// would without a Proxy.
func (w *whole) end(cause rewrite.Cause) bool {
	if cause == rewrite.CauseEOF {
		w.repair()
	} else {
		_ = w.release() // an error shows in w.x.client.err
	}
	return false
}

// repair repairs the answer and sends it, or an error if the agent failed.
func (w *whole) repair() {
	a := rewrite.RepairAnswer(w.body, &w.x.o.Rewrite, w.x.o.Usage(w.x.upstream()))
	if a.Kept != nil && w.x.r.Method != http.MethodPost { // no agent has run
		a = rewrite.Answer{Body: a.Kept, Changed: !bytes.Equal(a.Kept, w.body)}
	}
	if w.called && !a.Completion && a.Code == "" && bytes.Contains(w.body, []byte(`"error"`)) {
		clean := rewrite.RedactError(w.body)
		a.Body, a.Changed = clean, a.Changed || !bytes.Equal(clean, w.body)
	}
	w.done, w.body = a, nil
	h := w.x.client.w.Header()
	w.x.o.announce(h)
	if a.Code != "" {
		// As modern Hermes sends them beside an error.
		h.Set(completedHeader, "false")
		h.Set("X-Hermes-Partial", "false")
		w.x.sendError(http.StatusBadGateway, a.Code, append(a.Body, '\n'), true)
		return
	}
	if a.Changed {
		head.DropOfBody(h)
		if !head.HasTrailers(w.x.header) {
			h.Set("Content-Length", strconv.Itoa(len(w.before)+len(a.Body)))
		}
	}
	_ = w.send(append(w.before, a.Body...)) // an error shows in w.x.client.err
}

func (w *whole) report(res *Result) bool {
	res.Summary = w.done.Summary
	res.Whole = (res.Whole || w.done.Completion) && !w.called // the observer has begun to observe a chat
	return w.done.Completion
}
