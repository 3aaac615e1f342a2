package redis

import (
	"context"
	"errors"
	"net/http"

	goredis "github.com/redis/go-redis/v9"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// orphanGap is how many numbers of events are left out at the end of a log whose replica has
// died. Clients of that replica may have events that never came to Redis: those have numbers
// in the gap, because at most maxPending bytes, twice, are on their way.
const orphanGap = 1 << 20

// An orphan is a log whose replica is gone. This replica ends it.
type orphan struct {
	w   writer
	err error
}

// adopt ends a log whose lease is over: one that has begun with an error, as far as its
// format has one, any other as if its request had failed. If another replica does it, there
// is nothing to do.
func (s *Store) adopt(e resume.Entry) error {
	state, err := s.do(context.Background(), adoptScript, []string{s.names.log(e.ID)}, s.replica, s.o.Lease.Milliseconds())
	if errors.Is(err, goredis.Nil) {
		return nil
	}
	if err != nil {
		return err
	}
	o := &orphan{w: writer{s: s, entry: e}}
	if state == states[resume.Claimed] {
		return o.w.end(resume.Dropped)
	}
	if err := o.w.load(); err != nil {
		return err
	}
	if err := resume.Abandon(context.Background(), o, e, o.w.events, resume.ReasonNone); err != nil {
		return err
	}
	return o.err
}

// load continues where the log stands, after the gap.
func (w *writer) load() error {
	v, err := w.s.look(context.Background(), w.entry.ID)
	if err != nil {
		return err
	}
	if v == nil {
		return errLost
	}
	w.bytes, w.events, w.gap = v.bytes, v.events+orphanGap, orphanGap
	w.pieces = pieceNumber(v.last)
	last, err := w.s.read(w.entry.ID, beforePiece(v.last), 1)
	if err == nil && len(last) > 0 && last[0].data != "" {
		w.torn = !last[0].endsWhole()
	}
	return err
}

// Begin implements resume.Writer. The log has begun.
func (o *orphan) Begin(http.Header) error { return nil }

// Each implements resume.Writer.
func (o *orphan) Each(f func(p []byte)) error {
	return o.w.s.each(o.w.entry.ID, func(p piece) { f([]byte(p.data)) })
}

// Append implements resume.Writer.
func (o *orphan) Append(_ context.Context, p []byte, ends []int) error {
	o.w.appendAll(p, ends, func(write func() error) bool {
		o.err = write()
		return o.err == nil
	})
	return o.err
}

// End implements resume.Writer.
func (o *orphan) End(how resume.State) { o.err = o.w.end(how) }

// Interface guards
var _ resume.Writer = (*orphan)(nil)
