package redis

import (
	"context"
	"errors"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/hermes-sidecar/hermes-sidecar/proxy/resume"
)

// heirGap is how many numbers of events the heir of a log leaves out. Clients of a replica
// that has died may have events that never came to Redis: theirs are among those numbers,
// since no more than maxPending bytes, twice, are on their way.
const heirGap = 1 << 20

// An heir ends a log whose owner's lease is over.
type heir struct {
	remoteLog
	w   writer
	err error
}

// inherit ends a log that its owner has left behind: one that has begun with an error, as
// far as there is one, any other as if it had failed. If another replica does it, there is
// nothing to do.
func (s *Store) inherit(e resume.Entry) error {
	state, err := s.do(context.Background(), inheritScript, []string{s.names.log(e.ID)}, s.replica, s.o.Lease.Milliseconds())
	if errors.Is(err, goredis.Nil) {
		return nil
	}
	if err != nil {
		return err
	}
	h := &heir{remoteLog: remoteLog{s, e}, w: writer{s: s, entry: e}}
	if state == stateClaimed {
		return h.w.drop()
	}
	if err := h.takeStock(); err != nil {
		return err
	}
	if err := resume.Abandon(h, resume.ReasonNone, time.Now()); err != nil {
		return err
	}
	return h.err
}

// takeStock finds out where the log stands.
func (h *heir) takeStock() error {
	v, err := h.s.look(context.Background(), h.entry.ID)
	if err != nil {
		return err
	}
	if v == nil {
		return errLost
	}
	h.w.bytes, h.w.events = v.bytes, v.events+heirGap
	h.w.gap = heirGap
	h.w.pieces = pieceNumber(v.last)
	last, err := h.s.read(h.entry.ID, beforePiece(v.last), 1)
	if err == nil && len(last) > 0 && last[0].data != "" {
		h.w.torn = !last[0].endsWhole()
	}
	return err
}

// Events implements resume.Log.
func (h *heir) Events() uint64 { return h.w.events }

// Append implements resume.Log.
func (h *heir) Append(p []byte, ends []int) error {
	for len(p) > 0 {
		var piece []byte
		var pieceEnds []int
		piece, pieceEnds, p, ends = cut(p, ends)
		if err := h.w.append(piece, pieceEnds); err != nil {
			return err
		}
	}
	return nil
}

// End implements resume.Log.
func (h *heir) End(whole bool) {
	state := stateBroken
	if whole {
		state = stateWhole
	}
	h.err = h.w.end(state)
}
