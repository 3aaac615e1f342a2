package proxy

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
	"github.com/hermes-sidecar/hermes-sidecar/proxy/internal/deadline"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// answer is upstream's answer, of one of three kinds: passing, stream and whole. It
// is chosen once, at the final status; only a whole one that turns out to be
// something else is exchanged for one that passes.
type answer interface {
	// begin begins the answer, whose header is that of the inner writer.
	begin()
	// write takes bytes of upstream's: all of them, even if some are held back, for
	// copiers take less for a short write.
	write(b []byte) (int, error)
	// flush lets what has been written leave, as far as it may.
	flush() error
	// cut ends the answer for a cause of ours. The next handler may still be at it.
	cut(cause rewrite.Cause)
	// end ends the answer of a next handler that has ended like that. It reports
	// whether a failure is dealt with: the client knows.
	end(cause rewrite.Cause) (handled bool)
	// report returns res with what became of the answer, and whether an Observer is
	// told.
	report(res Result) (_ Result, observed bool)
}

// choose returns the answer that the status and the header of the inner writer are
// the beginning of (contract section 0).
func (x *exchange) choose(status int) answer {
	h := x.client.w.Header()
	if status != http.StatusOK || x.client.r.Method == http.MethodHead {
		return passing{x}
	}
	switch media := head.MediaType(h); {
	case media == "text/event-stream" && head.IsEncoded(h):
		return encoded{passing{x}}
	case media == "text/event-stream":
		return newStream(x)
	case media == "application/json" && rewrite.IsAnswerPath(x.client.r.URL.Path) && !head.IsEncoded(h) && x.fits(h):
		return &whole{x: x}
	}
	return passing{x}
}

// fits reports whether an answer with the header h may be kept: one that is larger
// than a frame may be passes unexamined.
func (x *exchange) fits(h http.Header) bool {
	n, err := strconv.Atoi(head.First(h, "Content-Length"))
	return err != nil || n <= x.p.o.Rewrite.FrameLimit()
}

// causeOf returns how upstream ended.
func causeOf(panicked any, err error) rewrite.Cause {
	switch {
	case panicked != nil:
		return rewrite.CauseAborted
	case err == nil:
		return rewrite.CauseEOF
	}
	var t interface{ Timeout() bool }
	if errors.As(err, &t) && t.Timeout() {
		return rewrite.CauseTimeout
	}
	return rewrite.CauseAborted
}

// passing is an answer that passes byte for byte. No deadline applies to it, and it
// is written and flushed without the lock.
type passing struct{ x *exchange }

func (a passing) begin() {
	a.x.passes, a.x.times.Phase = true, deadline.Free
	a.x.client.commit()
}

func (a passing) write(b []byte) (int, error) { return a.x.client.w.Write(b) }

func (a passing) flush() error { return http.NewResponseController(a.x.client.w).Flush() }

func (passing) cut(rewrite.Cause) {}

func (passing) end(rewrite.Cause) bool { return false }

func (passing) report(res Result) (Result, bool) { return res, false }

// encoded is a stream that upstream has compressed although it was asked not to. It
// passes.
type encoded struct{ passing }

func (a encoded) report(res Result) (Result, bool) {
	res.Outcome = OutcomeEncoded
	return res, a.x.chat
}
