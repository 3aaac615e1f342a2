package resume

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/panics"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// rest returns the log with the id, piece by piece, as far as it has come. ctx is done.
func rest(ctx context.Context, s Store, id string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		r, _, err := oldest(ctx, s, id)
		defer r.Close()
		for err == nil {
			var part Part
			if part, err = r.Next(); err == nil && !yield(part.Data, nil) {
				return
			}
		}
		if ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
			yield(nil, err)
		}
	}
}

// oldest returns a reader of the log with the id that begins with the oldest event that is there,
// after the event n. It has returned its first part. The error came with that.
func oldest(ctx context.Context, s Store, id string) (r Reader, n uint64, err error) {
	r = s.Read(ctx, id, 0)
	_, err = r.Next()
	for old := (*GoneError)(nil); errors.As(err, &old); _, err = r.Next() { // more may go meanwhile
		r.Close()
		n = old.First - 1
		r = s.Read(ctx, id, n)
	}
	return r, n, err
}

// Finish returns what the log with the entry e still needs, and how it ends, if its run was
// cancelled or is no more. Its last event has the number last, and rest yields its bytes, or an
// error and no more. If the stream is one of Hermes', it gets the error finish that it still needs
// (contract section 3), and is whole with that. Any other stream has broken off, and so has
// one that Finish panics on: the panic is the error.
func Finish(e Entry, last uint64, why Reason, rest iter.Seq2[[]byte, error]) (p Part, how State, err error) {
	defer func() {
		if v := panics.Carry(recover()); v != nil {
			how = Broken
			err, _ = v.(error)
		}
	}()
	cause, now := rewrite.CauseAborted, time.Now()
	if why == ReasonShutdown {
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
			return Part{}, Broken, err
		}
		scratch, _ = number.add(scratch[:0], nil, p)
		fed = s.Feed(fed[:0], scratch, now)
	}
	if !s.Guarded() || !number.between() {
		return Part{}, Broken, nil
	}
	number.apart = false
	number.last = last
	out, ends := number.add(nil, nil, s.Finish(nil, cause))
	return Part{Data: out, Ends: ends}, Whole, nil
}
