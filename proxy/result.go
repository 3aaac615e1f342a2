package proxy

import (
	"cmp"
	"fmt"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// The outcomes of a stream that are no error code of package rewrite.
const (
	// OutcomeOK is a stream that ended well.
	OutcomeOK = "ok"
	// OutcomeClientGone is one whose client left before its end.
	OutcomeClientGone = "client_gone"
	// OutcomeEncoded is one that upstream has compressed although it was asked
	// not to: it has passed as it is.
	OutcomeEncoded = "passed_encoded"
)

// Result is what became of a stream that has ended, or of what was answered instead
// of one.
type Result struct {
	rewrite.Summary
	// Outcome is OutcomeOK, OutcomeClientGone, or the code of the error that
	// the client was sent.
	Outcome string
	// Upstream is the one that answered, as Options.Upstream names it.
	Upstream string
	// Duration is the time since the request came.
	Duration time.Duration
	// Status is the HTTP status that the client was sent.
	Status int
	// Cause is how upstream ended, CauseEOF for what was no stream.
	Cause rewrite.Cause
	// Whole says that the answer was none that is streamed, or was not to be:
	// it has been repaired, or an error was sent instead.
	Whole bool
	// Err is what the next handler returned or, as an error, panicked with;
	// nil for neither.
	Err error
}

// result returns what became of the answer of a next handler that has ended like
// that, and whether the Observer is told, which has begun then. Nobody else uses the
// exchange any more.
func (x *exchange) result(panicked any, err error) (res Result, observed bool) {
	c := &x.client
	res = Result{
		Duration: x.age(),
		Status:   int(c.status),
		Whole:    x.noStream,
		Err:      err,
	}
	if e, ok := panicked.(error); ok {
		res.Err = e
	} else if panicked != nil {
		res.Err = fmt.Errorf("panic: %v", panicked)
	}
	if c.gone() {
		res.Outcome = OutcomeClientGone
		observed = x.chat && (x.answer == nil || c.late)
	}
	if x.answer != nil {
		var reported bool
		res, reported = x.answer.report(res)
		observed = observed || reported
	}
	switch {
	case c.code != "":
		res.Outcome, res.Code = c.code, c.code
		observed = true
	case res.Outcome == "":
		res.Outcome = cmp.Or(res.Code, OutcomeOK)
	}
	if !observed {
		return res, false
	}
	if res.Upstream == "" {
		res.Upstream = x.upstream()
	}
	if x.observer == nil {
		kind := KindChat
		if res.Whole {
			kind = KindWhole
		}
		x.observer = x.p.o.Observer.Begin(c.r, Begun{Since: x.since, Kind: kind, Upstream: res.Upstream})
	}
	return res, true
}
