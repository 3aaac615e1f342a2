package redis

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// states are the words for the states of a log in Redis.
var states = [...]string{
	log.Claimed: "claimed", log.Begun: "begun",
	log.Whole: "whole", log.Broken: "broken", log.Dropped: "dropped",
}

// A view is the state of a log in Redis at some time, as lookScript returns it.
type view struct {
	State   string
	Begun   *beginning // nil before it has begun
	Pieces  uint64
	Events  uint64
	Writes  int64
	Gone    bool // it was deleted, or has been kept long enough
	Adopted bool // its owner is gone, and this replica must end it
	Orphan  bool // a replica has adopted it, now or before
	Lapsed  bool // the lease of its owner is over
	Entry   log.Entry
	state   log.State
}

// A beginning is the header of the answer that a log keeps.
type beginning struct {
	Header http.Header
	Status int `json:",omitempty"` // 0 for an event stream
}

// errDamaged means that Redis has something else where a log should be.
var errDamaged = errors.New("a log in redis is damaged: use a prefix that no other program uses")

// look returns the state of the log id. If reader is not "", look counts that reader, and may adopt
// the log. The error is ErrDropped if there is no log, and errUnsettled if Redis may have lost it.
func (s *Store) look(ctx context.Context, id, reader string) (*view, error) {
	replica := s.replica
	if !s.isSettled() {
		replica = "" // the owner may be about to refresh its lease
	}
	reply, err := s.do(ctx, lookScript, id, reader, s.o.Lease.Milliseconds(), replica)
	switch {
	case isNil(err) && replica == "":
		return nil, errUnsettled
	case isNil(err):
		return nil, log.ErrDropped
	}
	if err != nil {
		return nil, fmt.Errorf("looking for a log in redis: %w", err)
	}
	v, text := new(view), fmt.Sprint(reply)
	if err := json.Unmarshal([]byte(text), v); err != nil {
		return nil, fmt.Errorf("%w: decoding its entry: %w", errDamaged, err)
	}
	v.state = log.State(slices.Index(states[:log.Dropped], v.State))
	switch {
	case v.Entry.ID != id || v.state >= log.Dropped:
		return nil, fmt.Errorf("%w: it has the id %.40q and the state %.40q", errDamaged, v.Entry.ID, v.State)
	case v.state != log.Claimed && (v.Begun == nil || v.Begun.Header == nil):
		return nil, fmt.Errorf("%w: it has no header: %.100q", errDamaged, text)
	}
	return v, nil
}

// A piece is an entry of the stream of a log. Its id has the number of events that have ended up to
// its end, and then its own number, so that the piece in which an event ends is found by the number
// of the event.
type piece struct {
	id             string
	events, number uint64
	kind           kind
	data           string
}

// kind is the name of the only field of a piece.
type kind string

const (
	kindEnd   kind = "e" // the end of an event, or a whole event
	kindPart  kind = "p" // bytes after which no event ends
	kindBegin kind = "h" // no bytes: the log has begun; its header is in the hash
	kindState kind = "s" // no bytes: the log has ended in the state that data names
	kindGap   kind = "g" // no bytes: the numbers of events up to here are left out
)

// piecesOf returns the pieces of a part of a log.
func piecesOf(p log.Part) (all []piece, err error) {
	if p.Header != nil {
		header, err := json.Marshal(beginning{p.Header, p.Status})
		if err == nil && len(header) > maxRecord {
			err = errLarge
		}
		if err != nil {
			return nil, err
		}
		all = append(all, piece{kind: kindBegin, data: string(header)})
	}
	for b, ends := range p.Pieces(maxPiece) {
		k := kindPart
		if ends {
			k = kindEnd
		}
		all = append(all, piece{kind: k, data: string(b)})
	}
	return all, nil
}

// first returns the number of the first event of a log that begins with p. A log begins only after
// the end of an event.
func (p *piece) first() uint64 {
	if p.kind == kindEnd {
		return p.events
	}
	return p.events + 1
}

// Bounds of how a log is read and written.
const (
	// maxPiece is how many bytes of a log are in a piece at most. Together with what Redis adds,
	// they take just under 32 KiB, which the allocator of Redis does not round up.
	maxPiece = 31 << 10
	// maxEntries is how many pieces are read at once.
	maxEntries = 16
	// poll is how often a reader looks for new pieces. Readers do not block in Redis, so that many
	// of them need few connections. Text in steps of this time still flows.
	poll = 50 * time.Millisecond
	// marksPerStream is the number of steps in which MaxStream bytes of old events are deleted.
	marksPerStream = 64
)

// next returns the pieces of the log id that follow the piece after, at most maxEntries, or none.
func (s *Store) next(id, after string) ([]piece, error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.o.Timeout)
	defer cancel()
	streams, err := s.client.XRead(ctx, &goredis.XReadArgs{
		Streams: []string{s.name("events", id), after}, Count: maxEntries, Block: -1,
	}).Result()
	if err = s.checked(err); isNil(err) || err == nil && len(streams) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading a log in redis: %w", err)
	}
	pieces := make([]piece, len(streams[0].Messages))
	for i, m := range streams[0].Messages {
		p := &pieces[i]
		p.id = m.ID
		_, _ = fmt.Sscanf(m.ID, "%d-%d", &p.events, &p.number) // ours
		for name, value := range m.Values {
			p.kind = kind(name)
			p.data, _ = value.(string)
		}
	}
	return pieces, nil
}

// A writer writes a log to Redis.
type writer struct {
	s      *Store
	entry  log.Entry
	pieces uint64 // written
	events uint64
	bytes  int64
	inside bool   // the last piece does not end an event
	taken  int64  // bytes that all pieces take in Redis, the deleted ones included
	marks  []mark // pieces that the log may begin with; it begins with the first one
	sizes  log.EventSizes
	again  last
}

// A mark is a piece that follows the end of an event.
type mark struct {
	id     string
	before int64 // writer.taken before the piece
}

// add counts p and returns it with its id.
func (w *writer) add(p piece) piece {
	size := len(p.data)
	w.pieces++
	switch p.kind {
	case kindEnd:
		w.events++
	case kindGap:
		w.events += orphanGap
	case kindBegin:
		size = 0 // the header is in the hash
	}
	p.id, p.events, p.number = fmt.Sprintf("%d-%d", w.events, w.pieces), w.events, w.pieces
	most := w.entry.MaxStream / marksPerStream
	if n := len(w.marks); !w.inside && (n == 0 || w.taken-w.marks[n-1].before >= most) {
		w.marks = append(w.marks, mark{p.id, w.taken})
	}
	w.bytes += int64(size)
	w.taken += sizeInRedis(size)
	if w.inside = p.kind == kindPart; p.kind == kindEnd {
		w.sizes.Ended(w.bytes)
	}
	return p
}

// sizeInRedis estimates how many bytes Redis needs for a piece. Small pieces share a node.
func sizeInRedis(bytes int) int64 {
	if bytes < 2<<10 {
		return int64(bytes) + 40
	}
	return int64(bytes) + 96
}

// errLost means that a log belongs to another replica, was deleted, or cannot be restored.
var errLost = errors.New("the log in redis no longer belongs to this replica")

// write appends pieces, if any, to the log, and refreshes its lease. It first writes again the
// pieces that Redis has lost. It returns whether the log was cancelled, and how many readers it has
// in other replicas. If it fails, it may be called again with the same pieces.
func (w *writer) write(pieces ...piece) (cancelled bool, readers int, err error) {
	next, first := *w, ""
	added := make([]piece, len(pieces))
	for i, p := range pieces {
		added[i] = next.add(p)
	}
	limit := next.sizes.Limit(w.entry.MaxStream, next.bytes)
	for len(next.marks) > 1 && next.taken-next.marks[0].before > limit {
		next.marks = next.marks[1:]
		first = next.marks[0].id
	}
	is, n, err := next.send(w.pieces, first, added)
	for tries := 0; err == nil && is <= replyMissing; tries++ {
		if tries == restoreTries {
			return false, 0, errUnsettled
		}
		before := uint64(n)
		if is == replyMissing {
			if before, err = w.restore(); err != nil {
				return false, 0, err
			}
		}
		lost, ok := w.again.after(before, w.pieces)
		if !ok {
			return false, 0, errLost
		}
		is, n, err = next.send(before, first, append(slices.Clip(lost), added...))
	}
	switch {
	case err != nil:
		return false, 0, err
	case is < 0:
		return false, 0, errLost
	}
	*w = next
	w.again.add(added)
	return is > 0, int(n), nil
}

// restoreTries is how many times write restores what Redis has lost before it returns errUnsettled.
const restoreTries = 2

// Replies of writeScript.
const (
	replyMissing = -2
	replyBehind  = -3
)

// send appends pieces, which w has counted, to the log by writeScript, and returns its reply. before
// is how many pieces Redis has. Unless first is "", those before the one with that id are deleted.
func (w *writer) send(before uint64, first string, pieces []piece) (is, n int64, err error) {
	s, e := w.s, w.entry
	args := []any{
		e.ID, s.replica, s.o.Lease.Milliseconds(), s.ttl(e), before, w.pieces, w.events, first,
		e.Keep.Milliseconds(), min(e.Keep, cmp.Or(e.KeyKeep, e.Keep)).Milliseconds(),
	}
	for _, p := range pieces {
		args = append(args, p.id, string(p.kind), p.data)
	}
	v, err := s.do(context.Background(), writeScript, e.ID, args...)
	if err != nil {
		return 0, 0, err
	}
	reply, _ := v.([]any)
	if len(reply) != 2 {
		return 0, 0, errDamaged
	}
	is, _ = reply[0].(int64)
	n, _ = reply[1].(int64)
	return is, n, nil
}

// end appends the pieces after, and then ends the log in the state how.
func (w *writer) end(how log.State, after ...piece) error {
	_, _, err := w.write(append(after, piece{kind: kindState, data: states[how]})...)
	return err
}

// orphanGap is how many numbers of events are left out at the end of a log whose replica has died.
// Clients of that replica may have events that never reached Redis. Their numbers are in the gap,
// because at most 2*maxPending bytes are on their way.
const orphanGap = 1 << 20

// abandon ends a log that this replica has adopted. An event stream that has begun ends with an
// error, if its format has one; any other log ends as if its request had failed. The gap is
// first, so that a client that has an event in it waits for the end.
func (s *Store) abandon(v *view) error {
	w := &writer{s: s, entry: v.Entry, pieces: v.Pieces, events: v.Events, again: last{torn: true}}
	if v.state == log.Claimed || v.Entry.Weak {
		return w.end(log.Dropped)
	}
	if v.Begun.Status != 0 { // a part of a body is not an answer
		err := w.end(log.Broken)
		if err == nil {
			_, err = s.do(context.Background(), deleteScript, v.Entry.ID, v.Entry.ID)
		}
		return err
	}
	_, _, failed := w.write(piece{kind: kindGap}) // an error of Redis; after any other error the log breaks off
	rest := func(yield func([]byte, error) bool) {
		for after := "0-0"; failed == nil; {
			var pieces []piece
			if pieces, failed = s.next(v.Entry.ID, after); failed == nil {
				_, _, failed = w.write() // reading a long log may take longer than a lease
			}
			if len(pieces) == 0 {
				break
			}
			for _, p := range pieces {
				if (p.kind == kindEnd || p.kind == kindPart) && !yield([]byte(p.data), nil) {
					return
				}
			}
			after = pieces[len(pieces)-1].id
		}
		if failed != nil {
			yield(nil, failed)
		}
	}
	part, how, _ := s.o.Finish(v.Entry, w.events, log.ReasonNone, rest)
	if failed != nil {
		return failed
	}
	pieces, _ := piecesOf(part) // fails only with a header
	err := w.end(how, pieces...)
	if err == nil && v.Entry.Once {
		_, err = s.do(context.Background(), deleteScript, v.Entry.ID, v.Entry.ID)
	}
	return err
}
