package resume

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// maxSought is the size in bytes above which an event is not searched for its number.
const maxSought = 1 << 20

// looksBack is how many events of a log are read one after another, rather than sought by bisection.
const looksBack = 32

// lastBefore returns the number of an event of a log, at least n: of all up to it is known that they
// precede what a client seeks, and of those after it at most looksBack do. next looks at the
// first event after the one with a number that says where it stands. It returns its number, and
// whether it precedes that. It returns false as well if there is none.
//
// A log of any length costs a client as little as a short one, because what its events say grows.
func lastBefore(n uint64, next func(n uint64) (at uint64, before bool)) uint64 {
	end := uint64(math.MaxUint64) // no event after this one precedes it
	for step := uint64(looksBack); n+looksBack < end; {
		middle := n + (end-n)/2
		if end == math.MaxUint64 {
			middle, step = n+step, 2*step
		}
		if at, before := next(middle); before {
			n = max(at, middle)
		} else {
			end = middle
		}
	}
	return n
}

// lastNumberBelow returns the number of an event of the log with the id, as lastBefore does. Those
// that are sought have a sequence_number of at least the given one.
func lastNumberBelow(ctx context.Context, s log.Store, id string, n uint64, sequence int64) uint64 {
	ctx, cancel := context.WithCancel(ctx)
	cancel() // do not wait for more
	return lastBefore(n, func(n uint64) (at uint64, before bool) {
		r, n, err := readAfter(ctx, s, id, n)
		defer r.Close()
		for e := (numberedEvents{r: r, n: n}); err == nil; {
			var number *int64
			if _, number, _, err = e.next(); number != nil {
				return e.n, *number < sequence
			}
		}
		return 0, false
	})
}

// numberedEvents reads the events of a response from a log.
type numberedEvents struct {
	r      log.Reader // has read the first part
	n      uint64     // the number of the last event, in the log
	frames sse.Scanner
	frame  sse.Frame
}

// next returns the next event that is not too large, the number in the log of the event before it,
// and its sequence_number, nil if it has none.
func (s *numberedEvents) next() (e responseEvent, number *int64, last uint64, err error) {
	s.frames.MaxFrame = maxSought
	for {
		for u, b, ok := s.frames.Next(); ok; u, b, ok = s.frames.Next() {
			if u == sse.UnitRaw && !s.frames.Raw() {
				s.n++ // too large to be searched: the id of the next event corrects n
			}
			if u != sse.UnitFrame {
				continue
			}
			s.frame.Parse(b)
			_, id, _ := strings.Cut(string(s.frame.ID), "/")
			last = s.n
			s.n, _ = strconv.ParseUint(id, 10, 64) // never fails: the log's own id
			e = readEvent(s.frame.Data)
			return e, e.Number, last, nil
		}
		s.frames.Rest()
		p, err := s.r.Next()
		if err != nil {
			return e, nil, s.n, err
		}
		s.frames.Feed(p.Data)
	}
}

// readAfter opens a reader of the log with the id after the event n or, if later ones were deleted,
// after the event from on which all are there, which it returns. It has read the first part already;
// err is the error of that read.
func readAfter(ctx context.Context, s log.Store, id string, n uint64) (r log.Reader, from uint64, err error) {
	r = s.Read(ctx, id, n)
	_, err = r.Next()
	for gone := (*log.GoneError)(nil); errors.As(err, &gone); _, err = r.Next() { // more may be deleted meanwhile
		n = gone.First - 1
		old := r
		r = s.Read(ctx, id, n) // a run may end without a reader
		old.Close()
	}
	return r, n, err
}

// responseEvent has the members that are read of an event of a response.
type responseEvent struct {
	Type     string          `json:"type"`
	Number   *int64          `json:"sequence_number"`
	Response json.RawMessage `json:"response"`
}

// readEvent returns the event in the data of a frame, zero if it is no event of a response.
func readEvent(data []byte) responseEvent {
	var e responseEvent
	if json.Unmarshal(rewrite.Finite(data), &e) != nil {
		return responseEvent{}
	}
	return e
}

// seek returns the number n of the event with the sequence_number after or, if a greater one is
// first, of the event before that. It waits for either until the stream ends. The reader r must be
// closed, also after an error.
func seek(ctx context.Context, s log.Store, id string, after int64) (n uint64, r log.Reader, err error) {
	r, n, err = readAfter(ctx, s, id, 0)
	isLost := n > 0 // whether events before the first one with a number were deleted
	if err == nil {
		if to := lastNumberBelow(ctx, s, id, n, after); to > n {
			old := r
			r, n, err = readAfter(ctx, s, id, to)
			old.Close()
			isLost = n > to
		}
	}
	events := numberedEvents{r: r, n: n}
	for err == nil {
		var number *int64
		_, number, n, err = events.next()
		switch {
		case err != nil || number == nil:
		case isLost && *number-1 > after:
			return events.n, r, &log.GoneError{First: events.n}
		case *number == after:
			return events.n, r, nil
		case *number > after:
			return n, r, nil
		default:
			isLost = false
		}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, log.ErrBroken) {
		err = nil
	}
	return events.n, r, err
}

// ended returns the response with which the stream with the id has ended, "" if it has not ended.
// The error is errUnknown if the run is over and the stream has no such response.
func ended(ctx context.Context, s log.Store, id string) (response string, err error) {
	ctx, stop := context.WithCancel(ctx)
	stop() // do not wait for the end
	r, n, err := readAfter(ctx, s, id, 0)
	if err == nil {
		if to := lastNumberBelow(ctx, s, id, n, math.MaxInt64); to > n {
			r.Close()
			r, n, err = readAfter(ctx, s, id, to-1) // that one may be the end
		}
	}
	defer r.Close()
	for events := (numberedEvents{r: r, n: n}); err == nil; {
		var e responseEvent
		switch e, _, _, err = events.next(); e.Type {
		case "response.completed", "response.failed", "response.incomplete", "response.cancelled":
			response = string(e.Response)
		}
	}
	switch over := errors.Is(err, io.EOF) || errors.Is(err, log.ErrBroken); {
	case over && response == "":
		return "", errUnknown
	case over, errors.Is(err, ctx.Err()):
		return response, nil
	}
	return "", err
}
