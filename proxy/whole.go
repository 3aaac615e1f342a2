package proxy

import (
	"net/http"
	"strconv"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// whole is an answer to a request for chat completions that is not streamed. It
// is kept until it has come, for only then is known whether the agent failed;
// its header is held with it.
type whole struct {
	keeps   bool // the answer is kept
	body    []byte
	object  objectEnd      // whether the object in body is complete
	flushed bool           // the next handler has asked for what has come
	done    rewrite.Answer // what became of it
}

// keeps tells whether the answer is kept.
func (rw *responseWriter) keeps() bool { return rw.whole != nil && rw.whole.keeps }

// repaired returns what became of an answer that was kept, nothing of another.
func (rw *responseWriter) repaired() rewrite.Answer {
	if rw.whole == nil {
		return rewrite.Answer{}
	}
	return rw.whole.done
}

// isWhole tells whether the answer is one to be kept: a JSON object that may be
// a chat completion. One larger than a frame may be passes unexamined.
func (rw *responseWriter) isWhole(status int) bool {
	if !rw.chat || status != http.StatusOK || rw.r.Method == http.MethodHead {
		return false
	}
	h := rw.inner.Header()
	if n, err := strconv.Atoi(h.Get("Content-Length")); err == nil && n > rw.p.o.Rewrite.FrameLimit() {
		return false
	}
	return mediaType(h) == "application/json" && !isEncoded(h)
}

// keep takes bytes of an answer that is kept. Where there are too many, it does
// not begin like an object (some gateways break the silence with white space),
// or more comes behind the object (JSON lines are read one by one), it passes as
// it comes from then on.
func (rw *responseWriter) keep(b []byte) error {
	w := rw.whole
	w.body = append(w.body, b...)
	if len(w.body) > rw.p.o.Rewrite.FrameLimit() || !w.object.take(b) {
		return rw.letGo()
	}
	return nil
}

// letGo sends what has been kept, as it is, and keeps no more.
func (rw *responseWriter) letGo() error {
	w := rw.whole
	rw.whole = nil
	return rw.sendWhole(w.body, w.flushed)
}

// sendWhole sends the header and the body, and flushes them where the next
// handler would have.
func (rw *responseWriter) sendWhole(body []byte, flush bool) error {
	rw.commit()
	if len(body) > 0 {
		if _, err := rw.inner.Write(body); err != nil {
			rw.lost(err)
			return err
		}
	}
	if !flush {
		return nil
	}
	return rw.flush()
}

// endWhole ends an answer that has been kept. One that broke off leaves as far
// as it came: it fails as it would without us.
func (rw *responseWriter) endWhole(complete bool) {
	if !complete {
		_ = rw.letGo() // an error shows in rw.writeErr
		return
	}
	a := rewrite.RepairAnswer(rw.whole.body, &rw.p.o.Rewrite, rw.usage())
	flush := rw.whole.flushed
	*rw.whole = whole{done: a}
	h := rw.inner.Header()
	if a.Completion {
		for i, text := range h["X-Hermes-Error"] { // which repeats the error in the body
			h["X-Hermes-Error"][i] = rewrite.Redact(text)
		}
	}
	if a.Code != "" {
		// As modern Hermes says it beside the error.
		h.Set(completedHeader, "false")
		h.Set("X-Hermes-Partial", "false")
		rw.answerWith(http.StatusBadGateway, a.Code, append(a.Body, '\n'), true)
		return
	}
	if a.Changed {
		dropOfBody(h)
		if !rw.hasTrailers() {
			h.Set("Content-Length", strconv.Itoa(len(a.Body)))
		}
	}
	_ = rw.sendWhole(a.Body, flush) // likewise
}
