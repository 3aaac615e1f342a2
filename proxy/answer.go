package proxy

import (
	"net/http"

	"github.com/hermes-sidecar/hermes-sidecar/proxy/internal/deadline"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// passing is an answer that passes byte for byte. No deadline applies to it, and it
// is written and flushed without the lock.
type passing struct{ x *exchange }

func (a passing) begin() {
	a.x.passes, a.x.times.Phase = true, deadline.Free
	a.x.commit()
}

func (a passing) write(b []byte) (int, error) { return a.x.w.Write(b) }

func (a passing) flush() error { return http.NewResponseController(a.x.w).Flush() }

func (passing) cut(rewrite.Cause) {}

func (passing) end(rewrite.Cause) bool { return false }

func (passing) report(*Result) bool { return false }

// encoded is a stream that upstream has compressed although it was asked not to. It
// passes.
type encoded struct{ passing }

func (a encoded) report(res *Result) bool {
	res.Outcome = OutcomeEncoded
	return a.x.chat
}
