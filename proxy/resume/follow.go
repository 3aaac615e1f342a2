package resume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// statusGone is the status that is logged for a client that has left (Caddy:
// reverseproxy.go:1774).
const statusGone = 499

// following is how a client reads a log that is not of its own request.
type following struct {
	replayed  bool
	continued bool
	behind    uint64 // the event with this number
}

// open returns a reader of the log and the header of the answer, once there is one.
func open(ctx context.Context, l Log) (Reader, http.Header, error) {
	reader, err := l.Follow(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrDropped, err)
	}
	header, err := reader.Header()
	if err != nil {
		reader.Close()
		return nil, nil, err
	}
	return reader, header, nil
}

// follow answers r with what open has returned: from the position on, and then as the log
// grows.
func (p *Resume) follow(w http.ResponseWriter, r *http.Request, reader Reader, header http.Header, err error, f following) error {
	switch {
	case err != nil && r.Context().Err() == nil:
		unavailable().send(w)
		return nil
	case err != nil:
		w.WriteHeader(statusGone)
		return nil
	}
	defer reader.Close()
	var old *GoneError
	switch err := reader.Seek(f.behind); {
	case errors.As(err, &old):
		gone(old.First).send(w)
		return nil
	case err != nil:
		ahead().send(w)
		return nil
	}
	if r.Method != http.MethodPost && f.continued && reader.AtEnd() {
		// So that an EventSource, which takes every end for a failure, stops.
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	if r.Method == http.MethodHead {
		setHeader(w.Header(), header)
		w.WriteHeader(http.StatusOK)
		return nil
	}
	p.o.Runs.count.replay(f)
	setHeader(w.Header(), header)
	if f.replayed {
		w.Header().Set(ReplayedHeader, "true")
	}
	w.WriteHeader(http.StatusOK)
	if err := http.NewResponseController(w).Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil // it has left
	}
	n, err := p.send(w, r, reader, nil)
	p.o.Observer.Answered(r, Answered{Replayed: f.replayed || !f.continued, Continued: f.continued, Bytes: n, Err: err})
	return cutOff(err)
}

// send sends what comes from the reader, each piece as it comes, until its end. It returns
// nil for that, a *GoneError, ErrBroken or the error of a client that has left. The run may
// send some of it itself, if d is not nil.
func (p *Resume) send(w http.ResponseWriter, r *http.Request, reader Reader, d *direct) (n int64, err error) {
	c := &p.o.Runs.count
	c.readers.Add(1)
	defer c.readers.Add(-1)
	control := http.NewResponseController(w)
	for {
		if d != nil {
			if err := d.serve(w, r, reader); err != nil {
				return n, err
			}
		}
		b, err := reader.Next()
		switch {
		case errors.Is(err, io.EOF):
			return n, nil
		case err != nil:
			return n, err
		}
		written, err := w.Write(b)
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
	var old *GoneError
	if errors.As(err, &old) || errors.Is(err, ErrBroken) {
		panic(http.ErrAbortHandler)
	}
	return nil
}

// headerOf returns what next has set in its header, and what it has deleted, nil: what has
// been there before is the client's own.
func headerOf(next, before http.Header) http.Header {
	h := make(http.Header, len(next)+1)
	for name, values := range next {
		if was, ok := before[name]; !ok || !equal(values, was) {
			h[name] = values
		}
	}
	for name := range before {
		if _, ok := next[name]; !ok {
			h[name] = nil
		}
	}
	return h
}

func equal(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// setHeader sets in h what headerOf has returned.
func setHeader(h, set http.Header) {
	for name, values := range set {
		if values == nil {
			delete(h, name)
			continue
		}
		h[name] = append([]string(nil), values...)
	}
}

// replay counts a client that is given a log.
func (c *counters) replay(f following) {
	if f.continued {
		c.continued.Add(1)
	} else {
		c.replayed.Add(1)
	}
}
