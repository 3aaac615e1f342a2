package resume

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/panics"
	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// rest returns an iterator over the data that the log with the id has now, in pieces. The error of
// the reader follows, unless it is that of ctx, which must be done.
func rest(ctx context.Context, s log.Store, id string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		r, _, err := readAfter(ctx, s, id, 0)
		defer r.Close()
		for err == nil {
			var part log.Part
			if part, err = r.Next(); err == nil && !yield(part.Data, nil) {
				return
			}
		}
		if ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
			yield(nil, err)
		}
	}
}

// Finish is the log.Finish of logs of this package. A stream of Hermes gets the error finish that it
// still lacks (contract section 3), and ends as Whole. Any other stream ends as Broken. If rest fails
// or Finish panics, the stream ends as Broken, and err is that error or panic.
func Finish(e log.Entry, last uint64, why log.Reason, rest iter.Seq2[[]byte, error]) (p log.Part, how log.State, err error) {
	return finish(entryFrom(e), last, why, rest)
}

// finish is Finish for an entry.
func finish(e entry, last uint64, why log.Reason, rest iter.Seq2[[]byte, error]) (p log.Part, how log.State, err error) {
	panicked := panics.Catch(func() { p, how, err = restOfStream(e, last, why, rest) })
	if panicked != nil {
		err, _ = panicked.(error)
		return log.Part{}, log.Broken, err
	}
	return p, how, err
}

// restOfStream is finish without the care for panics.
func restOfStream(e entry, last uint64, why log.Reason, rest iter.Seq2[[]byte, error]) (log.Part, log.State, error) {
	cause, now := rewrite.CauseAborted, time.Now()
	if why == log.ReasonShutdown {
		cause = rewrite.CauseShutdown
	}
	s := rewrite.New(new(rewrite.Options), rewrite.Params{
		Active:    rewrite.IsChatPath(e.Path),
		Responses: rewrite.IsResponsesPath(e.Path),
		RunID:     rewrite.RunOfPath(e.Path),
		SessionID: rewrite.SessionOfPath(e.Path),
		Progress:  rewrite.ProgressOf(e.Progress),
		ID:        func() string { return "chatcmpl-" + e.ID },
		Created:   now.Unix(),
	})
	number := numbererOf(e) // to see where the stream stands
	number.apart = true     // a tool event may be a comment, which has lost its blank line
	var fed, scratch []byte
	for p, err := range rest {
		if err != nil {
			return log.Part{}, log.Broken, err
		}
		scratch, _ = number.add(scratch[:0], nil, p)
		fed = s.Feed(fed[:0], scratch, now)
	}
	if !s.Guarded() || !number.between() {
		return log.Part{}, log.Broken, nil
	}
	number.apart = false
	number.last = last
	out, ends := number.add(nil, nil, s.Finish(nil, cause))
	return log.Part{Data: out, Ends: ends}, log.Whole, nil
}
