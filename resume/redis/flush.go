package redis

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// states are the words for the states of a log in Redis.
var states = [...]string{
	resume.Claimed: "claimed", resume.Begun: "begun", resume.Whole: "whole", resume.Broken: "broken", resume.Dropped: "dropped",
}

// maxPiece is how many bytes of a log are in one entry of its stream. With what Redis needs
// beside them it takes just under 32 KiB, which its allocator need not round up.
const maxPiece = 31 << 10

// pieceOverhead is what an entry takes in Redis without its bytes, about.
const pieceOverhead = 96

// marksPerStream is in how many parts the oldest events of a log go.
const marksPerStream = 64

// A writer writes a log to Redis.
type writer struct {
	s      *Store
	entry  resume.Entry
	pieces uint64 // written, those without bytes included
	bytes  int64
	events uint64
	torn   bool   // the last byte is not the end of an event
	gap    uint64 // how many numbers before the next piece belong to no event
	taken  int64  // bytes in Redis, had nothing gone
	marks  []mark // the first one is where the log begins
	sizes  resume.EventSizes
}

// A mark is a piece that the log may begin with.
type mark struct {
	id     string
	before int64 // bytes in Redis
}

// nextID returns the id of a piece after which there are so many events. Pieces are in
// the order of their ids, and the first one with an event is found by its number.
func (w *writer) nextID(events uint64) string { return pieceID(events, w.pieces+1) }

func pieceID(events, piece uint64) string { return fmt.Sprintf("%d-%d", events, piece) }

func (w *writer) begin(header []byte) error {
	err := w.s.write(beginScript, w.s.names.all(w.entry)[:2], w.s.replica, header, w.s.ttl(w.entry), w.nextID(w.events))
	if err == nil {
		w.pieces++
	}
	return err
}

// append appends a piece of at most maxPiece bytes. If it fails, it may be called again
// with the same.
func (w *writer) append(p []byte, ends []int) error {
	events := w.events + uint64(len(ends))
	id := w.nextID(events)
	encoded := make([]byte, 0, 2*len(ends))
	sizes := w.sizes
	for i, last := 0, 0; i < len(ends); i++ {
		encoded = binary.AppendUvarint(encoded, uint64(ends[i]-last))
		last = ends[i]
		sizes.Ended(w.bytes + int64(last))
	}
	size := w.bytes + int64(len(p))
	limit := sizes.Limit(w.entry.MaxStream, size)
	marks := w.marks
	taken := w.taken + int64(len(p)+len(encoded)+pieceOverhead)
	if len(marks) == 0 || w.taken-marks[len(marks)-1].before >= w.entry.MaxStream/marksPerStream {
		marks = append(marks, mark{id, w.taken})
	}
	first := ""
	for len(marks) > 1 && taken-marks[0].before > limit {
		marks = marks[1:]
		first = marks[0].id
	}
	torn := 0
	if w.torn {
		torn = 1
	}
	err := w.s.write(appendScript, w.s.names.all(w.entry)[:2], w.s.replica, w.bytes, size, events, id,
		fmt.Sprintf("%d %d %d %d", w.bytes, w.events, torn, w.gap), encoded, p, first)
	if err != nil {
		return err
	}
	w.pieces++
	w.bytes, w.events, w.taken, w.marks, w.sizes, w.gap = size, events, taken, marks, sizes, 0
	w.torn = len(ends) == 0 || ends[len(ends)-1] < len(p)
	return nil
}

func (w *writer) end(how resume.State) error {
	keys, id := w.s.names.all(w.entry), w.nextID(w.events)
	if how == resume.Dropped {
		return w.s.write(dropScript, keys, w.s.replica, w.entry.ID, id)
	}
	return w.s.write(endScript, keys, w.s.replica, w.entry.ID, states[how], w.entry.Keep.Milliseconds(), id, w.bytes)
}

// appendAll appends p in pieces, each by a call of try. It stops and returns false when that
// does. It changes ends.
func (w *writer) appendAll(p []byte, ends []int, try func(write func() error) bool) bool {
	for len(p) > 0 {
		n := min(len(p), maxPiece)
		i := sort.SearchInts(ends, n+1)
		if !try(func() error { return w.append(p[:n], ends[:i]) }) {
			return false
		}
		p, ends = p[n:], ends[i:]
		for j := range ends {
			ends[j] -= n
		}
	}
	return true
}

// flushes calls flush. If that panics, the log goes on here.
func (o *owned) flushes() {
	if err := caught(o.s.o.Logger, o.flush); err != nil {
		_ = caught(o.s.o.Logger, func() { o.lose(err) })
		o.s.release(o, true)
	}
}

// flush brings the log to Redis until its run adds no more.
func (o *owned) flush() {
	defer close(o.done)
	w := &writer{s: o.s, entry: o.entry}
	var spare todo
	for range o.wake {
		o.mu.Lock()
		t, lost, over := o.todo, o.lost, o.over
		o.todo = todo{bytes: spare.bytes[:0], ends: spare.ends[:0]}
		o.room.Broadcast()
		o.mu.Unlock()
		if !lost {
			lost = !o.write(w, t)
		}
		if over && (lost || t.end != resume.Claimed) {
			o.s.release(o, lost)
			return
		}
		spare = t
	}
}

// write writes what there is to do. It returns false if the log is lost.
func (o *owned) write(w *writer, t todo) bool {
	if t.header != nil {
		header, err := json.Marshal(t.header)
		if err == nil && len(header) > maxRecord {
			err = errLarge
		}
		if err != nil {
			o.lose(err)
			return false
		}
		if !o.try(func() error { return w.begin(header) }) {
			return false
		}
	}
	return w.appendAll(t.bytes, t.ends, o.try) &&
		(t.end == resume.Claimed || o.try(func() error { return w.end(t.end) }))
}

// try tries until it succeeds, or the log is lost: then it returns false.
func (o *owned) try(write func() error) bool {
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := write()
		if err == nil {
			o.succeeded()
			return true
		}
		o.mu.Lock()
		o.fails = true
		o.room.Broadcast()
		lost, until := o.lost, o.until
		o.mu.Unlock()
		if !lost && (errors.Is(err, errLost) || time.Now().After(until)) {
			o.lose(err)
			lost = true
		}
		if lost {
			return false
		}
		time.Sleep(wait)
	}
}

// succeeded records that a write did.
func (o *owned) succeeded() {
	o.mu.Lock()
	o.fails = false
	o.mu.Unlock()
	o.extend()
}

// release lets go of a log that is over. If all of it is in Redis, it need not be in memory
// as well.
func (s *Store) release(o *owned, lost bool) {
	if !lost {
		_ = o.memoryLog.Delete(context.Background()) // one in memory always can; its run is over
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.owned, o.entry.ID)
	s.closeIfIdle()
}
