package resume

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
	"github.com/hermes-sidecar/hermes-sidecar/internal/panics"
)

// Bounds of how long a run asks upstream for the rest of its events.
const (
	// asksAgainFor is how long it asks while there is no new event.
	asksAgainFor = time.Minute
	// firstPause is the pause before it asks the second time; it asks the first time at once. Each
	// pause is twice as long as the one before, up to longestPause.
	firstPause   = 250 * time.Millisecond
	longestPause = 8 * time.Second
)

// persistent returns a Next for a, which reads the events of a run. It calls next, and again with
// the number of the last event whenever the stream breaks off. Each call has a request of its own.
func (a *answer) persistent(next Next) Next {
	return func(w http.ResponseWriter, r *http.Request) error {
		pause, since, number := time.Duration(0), time.Now(), a.events.number
		for {
			from := number.next
			try, returned := a.o.Detached(r.Clone(r.Context()), w)
			aborted, err := panics.Aborts(func() error { return next(w, try) })
			returned()
			if number.next > from {
				pause, since = 0, time.Now()
			}
			rest, _ := w.(*remainder)
			again := a.torn || aborted || err != nil
			if !again || !a.repeats() || !number.between() || rest != nil && rest.refused ||
				time.Since(since) >= asksAgainFor || !wait(r.Context(), pause) {
				if aborted {
					panic(http.ErrAbortHandler)
				}
				return err
			}
			pause = min(max(2*pause, firstPause), longestPause)
			a.torn = false
			if number.next > 0 {
				r.Header[LastEventHeader] = []string{strconv.FormatUint(number.next-1, 10)}
			}
			w = &remainder{answer: a, header: make(http.Header)}
		}
	}
}

// wait waits for the time d or until ctx is done, and reports whether ctx is not done.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// remainder is the http.ResponseWriter of a call that asks for the rest of the events of a run.
// Writes of any answer but an event stream fail.
type remainder struct {
	answer  *answer
	header  http.Header
	decided bool
	streams bool
	refused bool // upstream has no more, and will have none
}

var errNoRest = errors.New("upstream answered without the rest of the events")

func (w *remainder) Header() http.Header { return w.header }

func (w *remainder) WriteHeader(status int) {
	if status < http.StatusOK || w.decided {
		return
	}
	w.decided = true
	w.streams = status == http.StatusOK && head.MediaType(w.header) == "text/event-stream" && !head.IsEncoded(w.header)
	w.refused = !w.streams && status < http.StatusInternalServerError
	w.answer.torn = !w.streams
}

func (w *remainder) Write(p []byte) (int, error) {
	if w.WriteHeader(http.StatusOK); !w.streams {
		return 0, errNoRest
	}
	return w.answer.Write(p)
}

// FlushError implements the flushing of http.ResponseController.
func (w *remainder) FlushError() error { return nil }
