package redis

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// What Redis has said that it has may be lost: a server starts again without its data, or a replica
// that has not got the last of it takes the place of its master. The owner of a log notices that as
// soon as it refreshes the lease, and writes again what it still has. Until owners have had the time
// for that, a log that is not there is not known to be none.

// errUnsettled means that Redis was away a short time ago, and does not have what is asked for.
var errUnsettled = errors.New("redis was away, and it is not known yet what it has lost")

// settleTime is how long at most owners are given for that. They try it every retryAfter while Redis is
// away, and every tick if they have not noticed.
const settleTime = 3 * time.Second

// isSettled reports whether Redis has been there for so long that it has what owners can write again.
func (s *Store) isSettled() bool {
	failed := s.failed.Load()
	return failed == 0 || time.Now().UnixNano()-failed >= int64(s.settle)
}

// maxAgain is how many bytes of a log, those that were written last, its owner can write again.
const maxAgain = 256 << 10

// last is the pieces of a log that were written last. They follow the end of an event, or are all.
type last struct {
	pieces []piece
	size   int    // in bytes
	header string // of the log, if that has begun before them
	torn   bool   // the event before them has not ended, and there are none
}

// add adds pieces, at the cost of the oldest ones.
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
		*p = piece{} // its bytes go
	}
	l.pieces = l.pieces[n:]
}

// after returns the pieces after the first n, of a log that has so many. It returns false if they
// are not all here.
func (l *last) after(n, pieces uint64) ([]piece, bool) {
	if first := pieces - uint64(len(l.pieces)); n >= first && n <= pieces {
		return l.pieces[n-first:], true
	}
	return nil, false
}

// restore makes the log again that Redis has lost, without pieces. It returns after how many the
// log begins now.
func (w *writer) restore() (before uint64, err error) {
	l, s, e := &w.again, w.s, w.entry
	events := w.events
	if len(l.pieces) > 0 {
		events = l.pieces[0].events
		if l.pieces[0].kind == kindEnd {
			events--
		}
		if p := l.pieces[len(l.pieces)-1]; p.kind == kindState && p.data == states[resume.Dropped] {
			return 0, errLost // it has gone as it should
		}
	}
	if l.torn {
		return 0, errLost
	}
	before = w.pieces - uint64(len(l.pieces))
	text, _ := json.Marshal(e) // as when it was claimed
	key, hasKey := s.keyOf(e)
	// Each write counts: a reader that waits for the third one from now on does not wait long.
	_, err = s.do(context.Background(), restoreScript, e.ID, e.ID, text, s.replica, s.o.Lease.Milliseconds(), s.ttl(e),
		key, hasKey, before, events, w.pieces, l.header)
	if err != nil {
		return 0, err
	}
	s.failed.Store(time.Now().UnixNano()) // others may be lost, too
	return before, nil
}

// guardTime is how long at most a log that has ended is guarded. It is less than how long that stays
// in Redis if it is not kept.
const guardTime = 30 * time.Second

// guard sees to it for a lease that the end of the log is not lost.
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
