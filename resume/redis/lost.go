package redis

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// Redis may lose what it has acknowledged: a server restarts without its data, or a replica that
// lacks the last writes takes the place of its master. The owner of a log notices this when it next
// refreshes the lease, and writes again what it still has. Until owners have had time for that, a
// log that is not in Redis may still exist.

// errUnsettled means that Redis was down recently, and a log or key that it lacks may return.
var errUnsettled = errors.New("redis was down, and may have lost this stream")

// settleTime is how long owners get at most to write their logs again. They try every retryAfter
// while Redis is down, and every tick if they have not noticed that it was.
const settleTime = 3 * time.Second

// isSettled reports whether Redis has been back long enough for owners to write again what it lost.
func (s *Store) isSettled() bool {
	failed := s.failed.Load()
	return failed == 0 || time.Now().UnixNano()-failed >= int64(s.settle)
}

// maxAgain is how many bytes at the end of a log its owner keeps to write them again.
const maxAgain = 256 << 10

// last has the last pieces of a log. They begin with the log or follow the end of an event.
type last struct {
	pieces []piece
	size   int    // in bytes
	header string // of the log, if it began before the pieces
	torn   bool   // there are no pieces, and the next one continues an event
}

// add adds pieces, and removes the oldest ones if there are more than maxAgain bytes.
func (l *last) add(pieces []piece) {
	l.pieces = append(l.pieces, pieces...)
	for _, p := range pieces {
		l.size += len(p.data) + pieceOverhead
	}
	n := 0
	for ; n < len(l.pieces) && (l.size > maxAgain || l.torn); n++ {
		p := &l.pieces[n]
		l.size -= len(p.data) + pieceOverhead
		l.torn = p.kind == kindPart
		if p.kind == kindBegin {
			l.header = p.data
		}
		*p = piece{} // frees its bytes
	}
	l.pieces = l.pieces[n:]
}

// after returns the pieces that follow the first n of a log with the given number of pieces. It
// returns false if l does not have all of them.
func (l *last) after(n, pieces uint64) ([]piece, bool) {
	if first := pieces - uint64(len(l.pieces)); n >= first && n <= pieces {
		return l.pieces[n-first:], true
	}
	return nil, false
}

// restore recreates the log that Redis has lost, without pieces. It returns how many pieces precede
// the beginning of the new log. The error is errLost if the log cannot be restored.
func (w *writer) restore() (before uint64, err error) {
	l, s, e := &w.again, w.s, w.entry
	events := w.events
	if len(l.pieces) > 0 {
		events = l.pieces[0].events
		if l.pieces[0].kind == kindEnd {
			events--
		}
		if p := l.pieces[len(l.pieces)-1]; p.kind == kindState && p.data == states[log.Dropped] {
			return 0, errLost // Redis has deleted it as it should
		}
	}
	if l.torn {
		return 0, errLost
	}
	before = w.pieces - uint64(len(l.pieces))
	text, _ := json.Marshal(e) // as when it was claimed
	key, hasKey := s.keyOf(e)
	// Each refresh counts as a write: a reader that waits for the third one does not wait long.
	_, err = s.do(context.Background(), restoreScript, e.ID, e.ID, text, s.replica, s.o.Lease.Milliseconds(), s.ttl(e),
		key, hasKey, before, events, w.pieces, l.header)
	if err != nil {
		return 0, err
	}
	s.failed.Store(time.Now().UnixNano()) // other logs may also be lost
	return before, nil
}

// guardTime is how long an ended log is guarded at most. It is shorter than the minute for
// which an ended log stays in Redis even if its Keep is 0.
const guardTime = 30 * time.Second

// guard writes the end of the log again if Redis loses it within a lease, at most guardTime.
func (w *writer) guard() {
	lease := min(w.s.o.Lease, guardTime)
	for end := time.Now().Add(lease); time.Now().Before(end); {
		select {
		case <-w.s.over:
			return
		case <-time.After(lease / 8):
		}
		if _, _, err := w.write(); errors.Is(err, errLost) {
			return
		}
	}
}

// isReplicated reports whether a server may take the place of another one.
func (o *Options) isReplicated() bool { return o.MasterName != "" || o.isCluster() }
