package redis

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// reader reads a log in Redis.
type reader struct {
	t     *tail
	name  string
	ctx   context.Context
	after uint64  // the number of the event to start after
	at    int64   // where it is in the log
	last  string  // the id of a piece, and the next one has what is there
	have  []piece // that it has not returned yet
	began bool    // it has returned the header
}

// until waits until it is so, or nothing comes any more, and leaves the tail locked.
func (r *reader) until(ctx context.Context, is func() bool) error {
	t := r.t
	t.mu.Lock()
	for !is() && t.err == nil {
		changed := t.changed
		t.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			t.mu.Lock()
			return ctx.Err()
		}
		t.mu.Lock()
	}
	return nil
}

// ended reports whether the log has. The tail is locked.
func (t *tail) ended() bool { return t.state > resume.Begun }

// start waits for the header and finds the place to begin. A client may have an event from the replica that runs the
// log before that is in Redis, and that replica may die then. One that is alive says whether
// there is such an event.
func (r *reader) start() (http.Header, bool, error) {
	t, n := r.t, r.after
	err := r.until(r.ctx, func() bool { return t.header != nil })
	header, failed := t.header, t.err
	known := n <= t.events || t.ended() || n-t.events > orphanGap
	t.mu.Unlock()
	switch {
	case err != nil:
		return nil, false, err
	case header == nil:
		return nil, false, failed
	}
	if failed == nil && !known {
		err = r.waitForEvent()
	}
	t.mu.Lock()
	events, failed, ended, whole, size := t.events, t.err, t.ended(), t.state == resume.Whole, t.end
	t.mu.Unlock()
	switch {
	case failed != nil:
		return header, false, nil // Next returns it
	case r.ctx.Err() != nil:
		return nil, false, r.ctx.Err()
	case err != nil || n > events:
		return nil, false, resume.ErrAhead
	}
	from := "0-0"
	if n > 0 {
		from = beforePiece(pieceID(n, 1))
	}
	pieces, err := r.bytes(from)
	if err != nil {
		return header, false, nil // likewise
	}
	if len(pieces) == 0 {
		if ended && size > 0 {
			return nil, false, &resume.GoneError{First: events + 1}
		}
		r.last = "0-0"
		return header, whole, nil
	}
	p := &pieces[0]
	switch {
	case p.before < n: // the event ends in it
		r.at = p.at + int64(p.after(n-p.before))
	case p.before == n && !p.torn, p.gap > 0 && n+p.gap >= p.before, n == 0 && p.at == 0:
		r.at = p.at
	default:
		return nil, false, &resume.GoneError{First: p.first()}
	}
	r.last, r.have = beforePiece(p.id), pieces
	return header, whole && r.at == size, nil
}

// waitForEvent waits for the event to start after, which is not in Redis. It returns an error
// if the replica that runs the log says that there is no such event, or says nothing for too
// long.
func (r *reader) waitForEvent() error {
	t, n := r.t, r.after
	ctx, cancel := context.WithTimeout(r.ctx, t.s.o.Lease+2*blocks+t.s.o.Timeout)
	defer cancel()
	if t.isAhead(ctx, n) {
		return resume.ErrAhead
	}
	err := r.until(ctx, func() bool { return n <= t.events || t.ended() })
	t.mu.Unlock()
	return err
}

// isAhead reports whether the owner of the log, which is asked, has no event with the number n
// either. If the owner does not answer until the log has ended or ctx is done, that is not known.
func (t *tail) isAhead(ctx context.Context, n uint64) bool {
	s, id := t.s, t.entry.ID
	v, err := s.do(ctx, askScript, []string{s.names.log(id)}, s.o.Prefix, id)
	message, _ := v.(string)
	for wait := blocks / 100; err == nil && pause(ctx, wait); wait = min(2*wait, blocks) {
		v, err := s.look(ctx, id)
		if err != nil || v == nil || v.state != resume.Begun {
			return false
		}
		if reached(v.asked, message) {
			return n > v.has
		}
	}
	return false
}

// reached reports whether the id of an entry of a stream is that of another, or after it.
func reached(id, other string) bool {
	var a, b, c, d uint64
	_, err := fmt.Sscanf(id+" "+other, "%d-%d %d-%d", &a, &b, &c, &d)
	return err == nil && (a > c || a == c && b >= d)
}

// bytes returns pieces that have bytes, after the one with the id. As long as Redis fails
// for less than a lease, it tries again.
func (r *reader) bytes(after string) ([]piece, error) {
	s := r.t.s
	for began := time.Now(); r.ctx.Err() == nil; {
		pieces, err := s.read(r.t.entry.ID, after, maxEntries)
		if err != nil && time.Since(began) < s.o.Lease && pause(r.ctx, blocks/10) {
			continue
		}
		if err != nil || len(pieces) == 0 {
			return nil, err
		}
		after = pieces[len(pieces)-1].id
		some := pieces[:0]
		for _, p := range pieces {
			if p.data != "" {
				some = append(some, p)
			}
		}
		if len(some) > 0 {
			return some, nil
		}
	}
	return nil, r.ctx.Err()
}

// Next implements resume.Reader.
func (r *reader) Next() (resume.Part, error) {
	if !r.began {
		header, atEnd, err := r.start()
		if r.began = err == nil; atEnd {
			err = io.EOF
		}
		return resume.Part{Header: header}, err
	}
	for {
		if b, err := r.take(); len(b) > 0 || err != nil {
			return resume.Part{Data: b}, err
		}
		t := r.t
		err := r.until(r.ctx, func() bool { return t.end > r.at || t.ended() })
		state, failed, more := t.state, t.err, t.end > r.at
		if more && t.hasRecent(r.at) {
			r.have = t.recent
		}
		t.mu.Unlock()
		switch {
		case err != nil:
			return resume.Part{}, err
		case more && len(r.have) == 0:
			if r.have, err = r.bytes(r.last); err != nil || len(r.have) == 0 {
				return resume.Part{}, resume.ErrBroken
			}
		case more:
		case failed != nil || state == resume.Broken:
			return resume.Part{}, resume.ErrBroken
		default:
			return resume.Part{}, io.EOF
		}
	}
}

// take returns what it has of the next piece, nil if it has none.
func (r *reader) take() ([]byte, error) {
	for len(r.have) > 0 {
		p := &r.have[0]
		r.have = r.have[1:]
		if p.at > r.at {
			return nil, &resume.GoneError{First: p.first()}
		}
		r.last = p.id
		if p.end() > r.at {
			b := []byte(p.data[r.at-p.at:])
			r.at = p.end()
			return b, nil
		}
	}
	return nil, nil
}

// Close implements resume.Reader. It does not wait for Redis.
func (r *reader) Close() { go caught(r.t.s.o.Logger, func() { r.t.leave(r.name) }) }

// pieceNumber returns the second part of the id of a piece.
func pieceNumber(id string) uint64 {
	_, number, _ := strings.Cut(id, "-")
	n, _ := strconv.ParseUint(number, 10, 64) // ours
	return n
}

// Interface guards
var _ resume.Reader = (*reader)(nil)
