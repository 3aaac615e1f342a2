package redis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// reader reads a log of another replica from Redis. It retries failed commands for up to a lease.
type reader struct {
	s      *Store
	id     string
	name   string
	ctx    context.Context
	close  context.CancelFunc
	after  uint64  // the number of the event to start after
	began  bool    // it has returned the header
	have   []piece // read, and not returned yet
	last   string  // the id of the last piece that was taken from have
	number uint64  // the number of that piece
	err    error   // of every Next from now on
}

// newReader returns a reader of the events after n. It counts as a reader until it is closed.
func newReader(ctx context.Context, s *Store, id string, n uint64) *reader {
	name := s.replica + ":" + strconv.FormatInt(s.members.Add(1), 10)
	r := &reader{s: s, id: id, name: name, ctx: ctx, after: n, last: "0-0"}
	s.use(1)
	open, closed := context.WithCancel(context.Background())
	r.close = closed
	go func() {
		defer s.use(-1)
		_ = caught(s.o.Logger, func() { r.stay(open) })
	}()
	return r
}

// stay lets the reader count until ctx is done.
func (r *reader) stay(ctx context.Context) {
	for again := true; again; again = pause(ctx, r.s.o.Lease/4) {
		_, _ = r.look(ctx)
	}
	limited, cancel := context.WithTimeout(context.Background(), r.s.o.Timeout)
	defer cancel()
	// If this fails, the reader no longer counts after a lease.
	_ = r.s.checked(r.s.client.ZRem(limited, r.s.name("readers", r.id), r.name).Err())
}

// Close implements log.Reader. It does not wait for Redis.
func (r *reader) Close() { r.close() }

// retry calls f until it succeeds, fails for good or for longer than a lease, or ctx is done.
func (r *reader) retry(ctx context.Context, f func() error) error {
	for began := time.Now(); ; {
		err := f()
		if err == nil || isFinal(err) || time.Since(began) > r.s.o.Lease || !pause(ctx, retryAfter) {
			return err
		}
	}
}

// isFinal reports whether err stays the same however often the command is retried.
func isFinal(err error) bool {
	_, gone := errors.AsType[*log.GoneError](err)
	return gone || errors.Is(err, log.ErrDropped) || errors.Is(err, errDamaged)
}

// look returns the state of the log. If the owner of the log is gone, look ends the log first.
func (r *reader) look(ctx context.Context) (v *view, err error) {
	err = r.retry(ctx, func() error {
		v, err = r.s.look(ctx, r.id, r.name)
		if err == nil && v.Adopted {
			if err = r.s.abandon(v); err == nil {
				v, err = r.s.look(ctx, r.id, r.name)
			}
		}
		return err
	})
	return v, err
}

// next reads the pieces after the last one into have.
func (r *reader) next() error {
	return r.retry(r.ctx, func() (err error) {
		r.have, err = r.s.next(r.id, r.last)
		return err
	})
}

// wait waits for pieces. When there are none for a while, it checks whether pieces were deleted,
// and whether the owner of the log is gone. The error is ErrBroken if pieces are missing.
func (r *reader) wait() error {
	missed := false
	for polls := 1; ; polls++ {
		if err := r.next(); err != nil || len(r.have) > 0 {
			return err
		}
		if missed {
			return log.ErrBroken
		}
		if polls%looksAfter == 0 {
			v, err := r.look(r.ctx)
			if err != nil {
				return err
			}
			missed = v.Pieces > r.number
		} else if !pause(r.ctx, backoff(polls)) {
			return r.ctx.Err()
		}
	}
}

const (
	// looksAfter is how many polls without a piece precede a look. After each look, the time
	// between polls grows by poll: an agent may work for minutes without sending anything.
	looksAfter = 20
	// slowest is the longest time between polls, as a multiple of poll.
	slowest = 8
)

// backoff returns how long to wait after this many polls without a piece.
func backoff(polls int) time.Duration { return poll * time.Duration(min(1+polls/looksAfter, slowest)) }

func (r *reader) Next() (log.Part, error) {
	if !r.began {
		return r.begin()
	}
	for r.err == nil {
		if len(r.have) == 0 {
			if err := r.wait(); err != nil && r.ctx.Err() != nil {
				return log.Part{}, r.ctx.Err()
			} else if err != nil {
				r.err = log.ErrBroken
				break
			}
		}
		p := &r.have[0]
		if p.number != r.number+1 {
			return log.Part{}, &log.GoneError{First: p.first()}
		}
		r.take()
		switch {
		case p.kind == kindState && p.data == states[log.Whole]:
			r.err = io.EOF
		case p.kind == kindState:
			r.err = log.ErrBroken
		case p.kind == kindEnd || p.kind == kindPart:
			return log.Part{Data: []byte(p.data)}, nil
		}
	}
	return log.Part{}, r.err
}

// take removes the first piece from have.
func (r *reader) take() {
	r.last, r.number = r.have[0].id, r.have[0].number
	r.have = r.have[1:]
}

// begin waits for the header, finds the first piece to return, and returns the first part.
func (r *reader) begin() (log.Part, error) {
	v, err := r.look(r.ctx)
	for err == nil && v.state == log.Claimed {
		if err = r.wait(); err == nil {
			v, err = r.look(r.ctx)
		}
	}
	if err == nil {
		v, err = r.waitForEvent(v)
	}
	if err == nil {
		err = r.find()
	}
	if err != nil && r.ctx.Err() != nil && !isFinal(err) {
		err = r.ctx.Err()
	}
	if v == nil || v.Begun == nil {
		return log.Part{}, err
	}
	if err != nil {
		return log.Part{Status: v.Begun.Status}, err
	}
	r.began = true
	if v.state == log.Whole && v.Pieces == r.number+1 {
		err = io.EOF
	}
	return log.Part{Header: v.Begun.Header, Status: v.Begun.Status}, err
}

// waitForEvent waits until Redis has the event r.after. The owner of the log may send a client an
// event before Redis has it. The third write from now on includes it at the latest: one write may
// be under way already, and the event may wait for room during the next one. If the owner dies, the
// event is in the gap (see orphanGap). The error is ErrAhead if there is no such event.
func (r *reader) waitForEvent(v *view) (*view, error) {
	for began := v.Writes; r.after > v.Events; {
		if v.state > log.Begun || v.Writes > began+2 {
			return nil, log.ErrAhead
		}
		if !pause(r.ctx, tick/5) {
			return nil, r.ctx.Err()
		}
		var err error
		if v, err = r.look(r.ctx); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// find finds the first piece after the event r.after. The error is a *GoneError if it was deleted.
func (r *reader) find() error {
	n := r.after
	if r.last = "0-0"; n > 0 {
		r.last = fmt.Sprintf("%d-%d", n-1, uint64(math.MaxUint64))
	}
	if err := r.next(); err != nil {
		return err
	}
	if len(r.have) == 0 {
		return log.ErrBroken
	}
	p := &r.have[0]
	r.number = p.number - 1
	switch {
	case n == 0 && p.number == 1, p.kind == kindGap, p.kind == kindEnd && p.events == n:
		r.take()
	case n == 0 || p.first() != n+1:
		return &log.GoneError{First: p.first()}
	}
	return nil
}
