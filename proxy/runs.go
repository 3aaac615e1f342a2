package proxy

import (
	"net/http"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// Answers that say that a run of POST /v1/runs is over are read for that (Options.RunOver): the events of
// the run, and its status, which passes unchanged. Only upstream's own words end a run: the end that the
// sidecar gives to a stream that was cut does not.

// status is the answer to a request for the status of a run.
type status struct {
	body []byte // its first rewrite.MaxRunAnswer bytes
}

// statusIn returns the status that the answer of x is, nil if it is none or nobody asks.
func statusIn(x *exchange) *status {
	if x.o.RunOver == nil || x.r.Method != http.MethodGet || rewrite.RunStatusOfPath(x.r.URL.Path) == "" ||
		head.MediaType(x.header) != "application/json" || head.IsEncoded(x.header) {
		return nil
	}
	return new(status)
}

// read reads b, the next bytes.
func (s *status) read(b []byte) {
	s.body = append(s.body, b[:min(len(b), rewrite.MaxRunAnswer-len(s.body))]...)
}

// endRun calls Options.RunOver if the answer has said that a run is over.
func (x *exchange) endRun() {
	path := x.r.URL.Path
	switch a := x.answer.(type) {
	case *stream:
		if x.o.RunOver != nil && a.engine.ShowedEndOfRun() {
			x.o.RunOver(x.r, rewrite.RunOfPath(path))
		}
	case *passing:
		if a.status != nil && rewrite.StateOfRun(a.status.body) == rewrite.RunOver {
			x.o.RunOver(x.r, rewrite.RunStatusOfPath(path))
		}
	}
}
