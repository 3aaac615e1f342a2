package resume

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"
)

// A run may be split: what it has answered so far becomes a whole stream, and the run goes on
// without a client, in another log, until a client asks for the rest. It may be split again.
//
// Both logs are in the same storage and have the same owner. The first one keeps the key. The id of
// the other is derived from that of the first, so that a client that deletes the one ends the run,
// also after the split and in another replica.

// A Split is a run about to be split. Everything that may be refused has been done, and nothing has
// ended.
type Split struct {
	x     *run // nil when it is over; of the goroutine of next
	o     *Options
	entry Entry  // of the new log
	log   Writer // of the new log
	hold  time.Duration
}

// splitPatience is how long a split waits for a storage to take the new log.
const splitPatience = time.Second

// NewSplit prepares to split the run that answers a request with the context, in the handlers that
// it calls. From the split on the run goes on without a client for the time hold at least, and then
// for as long as after a client has left. NewSplit returns nil if that may not be: the
// answer may not be resumed, is no event stream, has another name, as that of a response, there
// are as many runs without a client as may be, or the storage takes no log. Then all is as before. Do
// or Release must follow.
//
// NewSplit, Do and Release are called as the writer of the answer is: by one goroutine at a time.
// Before an answer without a status, its header decides what it will be.
func NewSplit(ctx context.Context, hold time.Duration) *Split {
	x, _ := ctx.Value(runKey{}).(*run)
	if x == nil || x.split != nil || !x.isSplittable() || !x.reserve() {
		return nil
	}
	is := x.entry
	s := &Split{x: x, o: x.o, hold: hold, entry: Entry{
		ID: restOf(x.o.Secret, is.ID), Owner: is.Owner, Path: is.Path, Progress: is.Progress,
		Keep:      max(x.o.Keep, hold), // not an SDK's: it has no key
		MaxStream: is.MaxStream, MaxMemory: is.MaxMemory,
	}}
	ctx, stop := context.WithTimeout(x.ctx, splitPatience)
	defer stop()
	if _, s.log, _ = x.o.Store.Claim(ctx, s.entry, Run{x.readersOf(x.part + 1), x.cancel}); s.log == nil {
		x.unreserve()
		return nil
	}
	x.split = s
	return s
}

// Do splits the run: the log is whole with what has been written so far, and all who read it are at
// its end at once. The new log has what is written from now on. Do returns false, and has no
// effect, if nothing has been written, or no end of an event, or the run is about to end.
func (s *Split) Do() bool {
	x := s.x
	if x == nil {
		return false
	}
	if !x.begun || !x.isSplittable() || !x.number.between() {
		s.Release()
		return false
	}
	header, at := x.kept.Clone(), strings.TrimSuffix(x.at, x.entry.ID)+s.entry.ID
	header.Set(StreamHeader, s.entry.ID)
	header.Set("Content-Location", at)
	if s.log.Append(x.ctx, Part{Header: header}) != nil || !x.leaveAll(s.hold) {
		s.Release()
		return false
	}
	s.x, x.split = nil, nil
	before := x.log
	x.mu.Lock()
	x.entry = s.entry
	x.mu.Unlock()
	x.log, x.kept, x.at = s.log, header, at
	x.eventsBefore += x.number.last
	x.number = numbererOf(x.entry)
	before.End(Whole)
	return true
}

// Release gives a Split up that has not been done. The run is not split any more. With a nil Split, or
// one that is over, it does nothing.
func (s *Split) Release() {
	if s == nil || s.x == nil {
		return
	}
	x := s.x
	s.x = nil // and x.split stays: a storage may still be busy with the id
	s.log.End(Dropped)
	x.unreserve()
}

// Rest answers r with what comes after the split, from its beginning and until its end, or with a
// problem if that is gone. It may be called by any number of goroutines, at any time. It does not
// ask who r comes from.
func (s *Split) Rest(w http.ResponseWriter, r *http.Request) error {
	err := follow(s.o, w, r, repeatAfter(s.o, r, s.entry, 0))
	if why, ok := errors.AsType[*cancelled](context.Cause(r.Context())); ok && why.why == ReasonDeleted {
		// r is of a run itself, whose stream its client has ended.
		_ = s.o.Store.Delete(context.Background(), s.entry.ID)
	}
	return answerProblem(w, err)
}

// ID returns the id of the stream that comes after the split.
func (s *Split) ID() string { return s.entry.ID }

// restOf returns the id of the log that follows the one with the id after a split. No client can
// know it from that.
func restOf(secret []byte, id string) string {
	return derivedID(hash(secret, [][]string{{"rest", id}}))
}

// isSplittable reports whether the answer is one of those that may be split.
func (x *run) isSplittable() bool {
	is := x.kind
	if is == kindUnknown {
		is = x.kindOf(http.StatusOK)
	}
	return is == kindStream && !x.entry.Plain && x.name == nil && x.logErr == nil
}

// readersOf returns what a store calls when the readers of the nth log of the run have changed.
func (x *run) readersOf(part int) func(n int) {
	return func(n int) {
		x.mu.Lock()
		defer x.mu.Unlock()
		switch part {
		case x.part:
			x.readers = n
			x.count()
		case x.part + 1:
			x.restReaders = n
		}
	}
}

// reserve reserves room for the run among those without a client. Until the room is used or given
// back, clients come and go unnoticed.
func (x *run) reserve() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.reason != ReasonNone || !x.detached && !x.o.Runs.detach(x.o.MaxDetached) {
		return false
	}
	x.reserved = true
	return true
}

// unreserve gives the room back.
func (x *run) unreserve() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.unreserveLocked()
	x.count()
}

// unreserveLocked is unreserve for a caller that holds x.mu, and leaves it at that.
func (x *run) unreserveLocked() {
	if !x.reserved {
		return
	}
	x.reserved = false
	if !x.detached {
		x.o.Runs.count(func(s *Stats) {
			s.Detached--
			s.TotalDetached--
		})
	}
}

// leaveAll leaves all clients to the log so far, and uses the room. It returns false if the run is
// cancelled.
func (x *run) leaveAll(hold time.Duration) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.reason != ReasonNone {
		return false
	}
	x.reserved, x.client, x.part = false, nil, x.part+1
	x.readers, x.restReaders = x.restReaders, 0
	x.detach = x.detachRest
	x.held = time.Now().Add(hold)
	if x.detached {
		x.timer.Stop()
	}
	x.goAlone()
	x.count() // a client may wait for the rest already
	return true
}
