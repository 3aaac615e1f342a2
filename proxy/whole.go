package proxy

import (
	"bytes"
	"net/http"
	"strconv"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
	"github.com/hermes-sidecar/hermes-sidecar/proxy/internal/deadline"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// whole is an answer that is not streamed: a JSON object that may be a chat completion, a
// response or the answer of a session. It is kept until it has come, for only then
// is known whether the agent failed; its header is held with it.
type whole struct {
	x       *exchange
	body    []byte
	object  objectEnd      // whether the object in body is complete
	flushed bool           // the next handler has asked for what has come
	done    rewrite.Answer // what became of it
}

func (w *whole) begin() { w.x.times.Phase = deadline.Whole }

// write keeps b. If there is too much, the answer does not begin like an object
// (some gateways break the silence with white space), or more comes behind the
// object (JSON lines are read one by one), it passes as it comes from then on.
func (w *whole) write(b []byte) (int, error) {
	w.body = append(w.body, b...)
	if len(w.body) > w.x.p.o.Rewrite.FrameLimit() || !w.object.take(b) {
		if err := w.release(); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

func (w *whole) flush() error {
	w.flushed = true
	return nil
}

// release sends what has been kept as it is, and lets the rest pass.
func (w *whole) release() error {
	w.x.answer = passing{w.x}
	w.x.answer.begin()
	return w.send(w.body)
}

// send sends the header and the body, and flushes them if the next handler would
// have.
func (w *whole) send(body []byte) error {
	if err := w.x.client.write(body); err != nil || !w.flushed {
		return err
	}
	return w.x.client.flush()
}

func (w *whole) cut(cause rewrite.Cause) { w.x.sendCause(cause) }

// end sends the answer, repaired. One that broke off leaves as far as it came: it
// fails as it would without us.
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
	a := rewrite.RepairAnswer(w.body, &w.x.p.o.Rewrite, w.x.usage(w.x.upstream()))
	if a.Kept != nil && w.x.client.r.Method != http.MethodPost { // no agent has run
		a = rewrite.Answer{Body: a.Kept, Changed: !bytes.Equal(a.Kept, w.body)}
	}
	w.done, w.body = a, nil
	h := w.x.client.w.Header()
	if a.Completion {
		for i, text := range h["X-Hermes-Error"] { // which repeats the error in the body
			h["X-Hermes-Error"][i] = rewrite.Redact(text)
		}
	}
	if a.Code != "" {
		// As modern Hermes says it beside the error.
		h.Set(completedHeader, "false")
		h.Set("X-Hermes-Partial", "false")
		w.x.client.sendError(http.StatusBadGateway, a.Code, append(a.Body, '\n'), true)
		return
	}
	if a.Changed {
		head.DropOfBody(h)
		if !head.HasTrailers(w.x.header) {
			h.Set("Content-Length", strconv.Itoa(len(a.Body)))
		}
	}
	_ = w.send(a.Body) // likewise
}

func (w *whole) report(res Result) (Result, bool) {
	res.Summary = w.done.Summary
	res.Whole = res.Whole || w.done.Completion
	return res, w.done.Completion
}
