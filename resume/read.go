package resume

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
)

// statusGone is the status that is logged for a client that has left (Caddy:
// reverseproxy.go:1774).
const statusGone = 499

// attend calls next and answers the first client, which reads the log as others do.
func (x *run) attend(w http.ResponseWriter, r *http.Request, body []byte, next Next) error {
	reader := x.o.Store.Read(r.Context(), x.entry.ID, 0)
	up := x.start(r, body, next)
	leave := sync.OnceValue(func() bool {
		reader.Close()
		return x.clients.leave()
	})
	defer leave() // also if w panics
	first, err := reader.Next()
	streams, n := err == nil || errors.Is(err, io.EOF), int64(0)
	if streams {
		x.o.Runs.count(func(s *Stats) { s.TotalBegun++ })
		setHeader(w.Header(), first.Header)
		maps.Copy(w.Header(), x.own)
		w.WriteHeader(http.StatusOK)
		if x.early {
			_ = http.NewResponseController(w).Flush() // an error comes again
		}
		n, err = send(x.o, w, reader)
	}
	left := leave()
	if streams {
		x.o.Observer.Answered(r, Answered{Bytes: n, Err: err})
	}
	switch {
	case left && !streams:
		w.WriteHeader(statusGone)
		return nil
	case left:
		return cutOff(err)
	}
	stop := context.AfterFunc(r.Context(), func() { x.clients.abort(context.Cause(r.Context())) })
	<-x.done
	stop()
	if x.o.Returned != nil {
		x.o.Returned(r, up)
	}
	if streams && err == nil {
		head.CopyTrailers(w.Header(), x.header)
	}
	switch {
	case streams && x.ended.Reason != ReasonNone: // what next did is of no interest
	case x.panicked != nil:
		panic(x.panicked)
	case x.ended.Err != nil:
		return x.ended.Err
	}
	return cutOff(err)
}

// following is how a client reads a log that is not of its own request.
type following struct {
	replayed  bool
	continued bool
	after     uint64 // the event with this number
}

// follow answers r with the events of the log with the id, and those that are still to come.
// If it returns a problem, it has not answered.
func follow(o *Options, w http.ResponseWriter, r *http.Request, id string, f following) error {
	reader := o.Store.Read(r.Context(), id, f.after)
	defer reader.Close()
	first, err := reader.Next()
	atEnd := errors.Is(err, io.EOF)
	if err != nil && !atEnd {
		p := problemOf(err)
		if p != errUnavailable || r.Context().Err() == nil {
			return p
		}
		w.WriteHeader(statusGone)
		return nil
	}
	if r.Method != http.MethodPost && f.continued && atEnd {
		// So that an EventSource, which takes every end for a failure, stops.
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	setHeader(w.Header(), first.Header)
	if r.Method == http.MethodHead {
		w.WriteHeader(http.StatusOK)
		return nil
	}
	o.Runs.count(func(s *Stats) {
		if f.continued {
			s.TotalContinued++
		} else {
			s.TotalReplayed++
		}
	})
	if f.replayed {
		w.Header().Set(ReplayedHeader, "true")
	}
	w.WriteHeader(http.StatusOK)
	if err := http.NewResponseController(w).Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil // it has left
	}
	n, err := send(o, w, reader)
	o.Observer.Answered(r, Answered{Replayed: f.replayed || !f.continued, Continued: f.continued, Bytes: n, Err: err})
	return cutOff(err)
}

// send sends what the reader returns, each piece as it comes, until the end. The error is a
// *GoneError, ErrBroken, or that of a client that has left.
func send(o *Options, w http.ResponseWriter, reader Reader) (n int64, err error) {
	o.Runs.count(func(s *Stats) { s.Readers++ })
	defer o.Runs.count(func(s *Stats) { s.Readers-- })
	control := http.NewResponseController(w)
	for {
		part, err := reader.Next()
		switch {
		case errors.Is(err, io.EOF):
			return n, nil
		case err != nil:
			return n, err
		}
		written, err := w.Write(part.Data)
		n += int64(written)
		if err == nil {
			err = control.Flush()
		}
		if err != nil && !errors.Is(err, http.ErrNotSupported) {
			return n, errors.Join(err, context.Canceled)
		}
	}
}

// cutOff aborts the connection of a client that is there and has not got all, so that it
// notices.
func cutOff(err error) error {
	if _, gone := errors.AsType[*GoneError](err); gone || errors.Is(err, ErrBroken) {
		panic(http.ErrAbortHandler)
	}
	return nil
}

// changes returns what next has set in its header, and nil for each field that it has
// deleted. The others are the client's own.
func changes(next, before http.Header) http.Header {
	h := maps.Clone(next)
	for name, was := range before {
		switch values, ok := next[name]; {
		case !ok:
			h[name] = nil
		case slices.Equal(values, was):
			delete(h, name)
		}
	}
	return h
}

// setHeader sets in h what changes has returned.
func setHeader(h, set http.Header) {
	for name, values := range set {
		if values == nil {
			delete(h, name)
			continue
		}
		h[name] = slices.Clone(values)
	}
}
