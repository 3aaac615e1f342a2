package redis

import (
	"context"
	"errors"

	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// orphanGap is how many numbers of events are left out at the end of a log whose replica has
// died. Clients of that replica may have events that never came to Redis: those have numbers
// in the gap, because at most maxPending bytes, twice, are on their way.
const orphanGap = 1 << 20

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
	w := &writer{s: s, entry: e}
	if state == states[resume.Claimed] {
		return w.end(resume.Dropped)
	}
	if err := w.load(); err != nil {
		return err
	}
	var failed error
	part, how, err := resume.Finish(e, w.events, resume.ReasonNone, func(yield func([]byte, error) bool) {
		failed = s.each(e.ID, func(p piece) { yield([]byte(p.data), nil) })
		if failed != nil {
			yield(nil, failed)
		}
	})
	if failed != nil {
		return failed
	}
	if err != nil {
		s.o.Logger.Error("ending a stream of another replica failed; it breaks off", zap.Error(err))
	}
	if !w.appendAll(part.Data, part.Ends, func(write func() error) bool { failed = write(); return failed == nil }) {
		return failed
	}
	return w.end(how)
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
