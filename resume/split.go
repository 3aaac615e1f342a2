package resume

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// A run may be split: its answer so far becomes a whole stream, and the run goes on in another log,
// without a client until one asks for the rest. It may be split again.
//
// Both logs are in the same storage and have the same owner. The first one keeps the key. The id of
// the second is derived from that of the first, so that a client that deletes the first log ends
// the run, also after the split and in another replica.

// A Split is a prepared split of a run: all that may be refused is done, and nothing has ended.
type Split struct {
	a     *answer // nil after Do or Release; for the goroutine of next
	o     *Options
	entry entry      // of the new log
	log   log.Writer // of the new log
	rest  *readers
	hold  time.Duration
}

// splitPatience is how long a split waits for a storage to take the new log.
const splitPatience = time.Second

// NewSplit prepares to split the run that answers the request with the context ctx. It is for
// handlers that Serve calls. After the split the run goes on without a client for at least the time
// hold, and then for as long as after a client has left. NewSplit returns nil, and changes nothing,
// if the run cannot be split: the answer may not be resumed, is no event stream, or has another
// name, such as the id of a response; or MaxDetached runs await a client after a split; or the storage
// takes no log. Otherwise Do or Release must follow.
//
// NewSplit, Do and Release are called like the methods of the answer's http.ResponseWriter: by one
// goroutine at a time. If the answer has no status yet, its header decides whether it is an event
// stream.
func NewSplit(ctx context.Context, hold time.Duration) *Split {
	x, _ := ctx.Value(runKey{}).(*run)
	if x == nil {
		return nil
	}
	a := x.answer
	if a.unsplit != nil || !a.isSplittable() || !a.life.reserve() {
		return nil
	}
	is := a.entry
	s := &Split{a: a, o: a.o, rest: &readers{of: a.life}, hold: hold, entry: entry{
		Entry: log.Entry{
			ID:        restOf(a.o.Secret, is.ID),
			Keep:      max(a.o.Keep, hold), // not sdkKeep: the new log has no key
			MaxStream: is.MaxStream, MaxMemory: is.MaxMemory,
		},
		about: about{Owner: is.Owner, Path: is.Path, Progress: is.Progress},
	}}
	ctx, stop := context.WithTimeout(a.ctx, splitPatience)
	defer stop()
	if _, s.log, _ = s.entry.claim(ctx, a.o.Store, a.life.logRun(s.rest)); s.log == nil {
		a.life.release()
		return nil
	}
	a.unsplit = s.Release
	return s
}

// Do splits the run: it ends the log so far as whole, and its readers reach the end at once. The
// run writes to the new log from now on. Do returns false, and releases the Split, if nothing has
// been written, an event is under way, the run is about to end, or the new log fails.
func (s *Split) Do() bool {
	a := s.a
	if a == nil {
		return false
	}
	if !a.begun || !a.isSplittable() || !a.events.number.between() {
		s.Release()
		return false
	}
	header, at := a.kept.Clone(), strings.TrimSuffix(a.at, a.entry.ID)+s.entry.ID
	header.Set(StreamHeader, s.entry.ID)
	header.Set("Content-Location", at)
	if s.log.Append(a.ctx, log.Part{Header: header}) != nil || !a.life.split(s.rest, s.hold) {
		s.Release()
		return false
	}
	s.a, a.unsplit = nil, nil
	before := a.log
	a.entry, a.log, a.kept, a.at = s.entry, s.log, header, at
	a.events.goOn(a.entry)
	before.End(log.Whole)
	return true
}

// Release gives up a Split before Do. The run cannot be split again. If the Split is nil, or Do or
// Release was called before, Release does nothing.
func (s *Split) Release() {
	if s == nil || s.a == nil {
		return
	}
	a := s.a
	s.a = nil // but a.unsplit stays, and allows no other: a storage may still be busy with the id
	s.log.End(log.Dropped)
	a.life.release()
}

// Rest answers r with the whole log after the split, or with a problem if that log is gone. Any
// number of goroutines may call it, at any time. It does not check who sends r.
func (s *Split) Rest(w http.ResponseWriter, r *http.Request) error {
	err := follow(s.o, w, r, repeatAfter(s.o, r, s.entry, 0))
	if why, ok := errors.AsType[*cancelled](context.Cause(r.Context())); ok && why.why == log.ReasonDeleted {
		// r is the request of a run, whose client has deleted its stream.
		_ = s.o.Store.Delete(context.Background(), s.entry.ID)
	}
	return answerProblem(w, err)
}

// ID returns the id of the stream after the split.
func (s *Split) ID() string { return s.entry.ID }

// restOf returns the id of the log that follows the one with the id after a split. A client that
// knows id cannot derive it.
func restOf(secret []byte, id string) string {
	return log.DerivedID(hash(secret, [][]string{{"rest", id}}))
}

// isSplittable reports whether the answer may be split.
func (a *answer) isSplittable() bool {
	is := a.kind
	if is == kindUnknown {
		is = a.kindOf(http.StatusOK)
	}
	return is == kindStream && !a.entry.Plain && a.name == nil && a.logErr == nil
}
