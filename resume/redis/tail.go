package redis

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// A tail follows a log for all its readers in this process, with one connection that waits.
// It has what has come last; readers that have less ask for what they lack.
type tail struct {
	s     *Store
	entry resume.Entry
	stop  context.CancelFunc

	readers map[string]struct{} // under the lock of the store

	mu      sync.Mutex
	changed chan struct{} // closed when any of the following changes
	known   bool          // the state is
	state   resume.State
	header  http.Header
	events  uint64
	end     int64 // after the last byte
	last    string
	recent  []piece // that have come last, without a gap
	err     error   // nothing comes any more
}

// tailOf returns the tail of a log, with one reader more.
func (s *Store) tailOf(e resume.Entry, reader string) *tail {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tails[e.ID]
	if t == nil || t.failed() {
		ctx, stop := context.WithCancel(context.Background())
		t = &tail{s: s, entry: e, stop: stop, readers: make(map[string]struct{}), changed: make(chan struct{}), last: "0-0"}
		s.tails[e.ID] = t
		go func() {
			if err := caught(s.o.Logger, func() { t.follow(ctx) }); err != nil {
				t.set(func() { t.err = err })
			}
		}()
	}
	t.readers[reader] = struct{}{}
	return t
}

// leave takes a reader out.
func (t *tail) leave(reader string) {
	s := t.s
	s.mu.Lock()
	delete(t.readers, reader)
	if len(t.readers) == 0 {
		t.stop()
		if s.tails[t.entry.ID] == t {
			delete(s.tails, t.entry.ID)
		}
		s.closeIfIdle()
	}
	s.mu.Unlock()
	// It is counted no longer after a lease anyway.
	_, _ = s.do(context.Background(), leaveScript, t.readKeys(), s.o.Prefix, t.entry.ID, reader)
}

func (t *tail) readKeys() []string {
	return []string{t.s.names.log(t.entry.ID), t.s.names.readers(t.entry.ID)}
}

// count has the readers count for a lease.
func (t *tail) count() error {
	s := t.s
	args := []any{s.o.Prefix, t.entry.ID, s.o.Lease.Milliseconds()}
	s.mu.Lock()
	for reader := range t.readers {
		args = append(args, reader)
	}
	s.mu.Unlock()
	if len(args) == 3 {
		return nil
	}
	_, err := s.do(context.Background(), readScript, t.readKeys(), args...)
	return err
}

// follow follows the log until that ends, or ctx is done. As long as Redis fails for less
// than a lease, its readers do not notice.
func (t *tail) follow(ctx context.Context) {
	var failing time.Time
	look := true
	for ctx.Err() == nil {
		var err error
		if look {
			look, err = t.look()
		} else {
			look, err = t.wait(ctx)
		}
		switch {
		case err == nil:
			failing = time.Time{}
			if t.over() {
				return
			}
			continue
		case failing.IsZero():
			failing = time.Now()
		case time.Since(failing) > t.s.o.Lease:
			t.set(func() { t.err = err })
			return
		}
		look = true
		pause(ctx, blocks/10)
	}
}

// over reports whether nothing comes any more.
func (t *tail) over() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err != nil || t.ended()
}

// failed reports whether nothing comes any more because it cannot be had.
func (t *tail) failed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err != nil
}

// look finds out about the state. It reports whether it has to look again.
func (t *tail) look() (again bool, err error) {
	v, err := t.s.look(context.Background(), t.entry.ID)
	if errors.Is(err, errDamaged) { // it stays so
		t.set(func() { t.err = err })
		return false, nil
	}
	if err != nil {
		return true, err
	}
	if v == nil {
		t.set(func() {
			if t.err = resume.ErrBroken; t.header == nil {
				t.err = resume.ErrDropped
			}
		})
		return false, nil
	}
	if v.state <= resume.Begun && v.lease < 0 {
		return true, t.s.adopt(v.entry)
	}
	t.set(func() {
		if !t.known || v.state > resume.Begun {
			t.last, t.end, t.events = v.last, v.bytes, v.events
		}
		t.known, t.state = true, v.state
		if t.header == nil {
			t.header = v.header
		}
	})
	return false, nil
}

// wait waits for pieces. It reports whether it is time to look.
func (t *tail) wait(ctx context.Context) (look bool, err error) {
	entries, err := t.s.waitForLog(ctx, t.entry.ID, t.last)
	if err != nil {
		if ctx.Err() == nil {
			t.s.failed(err)
		}
		return true, err
	}
	if len(entries) == 0 {
		return true, nil
	}
	pieces := make([]piece, 0, len(entries))
	for _, m := range entries {
		p := newPiece(m)
		if p.data == "" {
			look = true
			continue
		}
		pieces = append(pieces, p)
	}
	t.set(func() {
		t.last = entries[len(entries)-1].ID
		if len(pieces) > 0 {
			end := &pieces[len(pieces)-1]
			t.recent, t.end, t.events = pieces, end.end(), end.before+end.events()
		}
	})
	return look, nil
}

// hasRecent reports whether what has come last has the byte at the index, and those after it.
// The log may have bytes that have not come here: look only learns of them. t.mu is held.
func (t *tail) hasRecent(at int64) bool {
	n := len(t.recent)
	return n > 0 && t.recent[0].at <= at && at < t.recent[n-1].end()
}

// set changes what readers wait for.
func (t *tail) set(change func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change()
	close(t.changed)
	t.changed = make(chan struct{})
}
