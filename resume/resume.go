package resume

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
)

// Resume lets the answers of a handler outlive their connections. It is safe for
// concurrent use.
type Resume struct {
	o Options
}

// New returns a Resume with the options.
func New(o Options) *Resume {
	if o.Store == nil {
		o.Store = NewMemory()
	}
	if o.Secret == nil {
		o.Secret = NewSecret()
	}
	if o.Runs == nil {
		o.Runs = new(Runs)
	}
	if o.MaxRequest == nil {
		o.MaxRequest = func() int64 { return proxy.DefaultMaxRequest }
	}
	if o.MaxStream == 0 {
		o.MaxStream = DefaultMaxStream
	}
	if o.MaxMemory == 0 {
		o.MaxMemory = DefaultMaxMemory
	}
	if o.Interrupt == nil {
		o.Interrupt = interrupt
	}
	if o.Observer == nil {
		o.Observer = unobserved{}
	}
	return &Resume{o}
}

// Handler returns a handler that lets the answers of next outlive their connections.
func (p *Resume) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Without a next handler that returns errors there is none to return.
		_ = p.Serve(w, r, func(w http.ResponseWriter, r *http.Request) error {
			next.ServeHTTP(w, r)
			return nil
		})
	})
}

// A Next is the handler that Serve calls for answers. It may return an error.
type Next func(http.ResponseWriter, *http.Request) error

// Serve answers r: from a log if it asks for one, and otherwise by next. A request that
// asks for nothing of ours goes to next as it is.
//
// The error and the panic of next go on in the goroutine of the client that it was called
// for, as long as that is there. If there is no client any more, Observer is told.
func (p *Resume) Serve(w http.ResponseWriter, r *http.Request, next Next) error {
	switch r.Method {
	case http.MethodPost:
		at, bad := lastEvent(r.Header)
		a, asks, wrong := p.asks(r)
		switch {
		case wrong != nil:
			wrong.send(w)
			return nil
		case bad:
			ahead().send(w)
			return nil
		case at.id != "":
			return p.resume(w, r, r.URL.Path, at, a.key)
		case asks:
			return p.post(w, r, a, next)
		}
	case http.MethodGet, http.MethodHead:
		if resource, id, ok := named(r.URL.Path); ok {
			at, bad := lastEvent(r.Header)
			if bad || at.id != "" && at.id != id {
				ahead().send(w)
				return nil
			}
			return p.resume(w, r, resource, position{id, at.n}, "")
		}
	case http.MethodDelete:
		if resource, id, ok := named(r.URL.Path); ok {
			return p.cancel(w, r, resource, id)
		}
	}
	return next(w, r)
}

// post answers a request that asks for a log: the one of its key, or a new one.
func (p *Resume) post(w http.ResponseWriter, r *http.Request, a asked, next Next) error {
	body, ok := p.readBody(r)
	if !ok {
		return next(w, r)
	}
	e := Entry{
		ID: newID(), Path: strings.Clone(r.URL.Path), Progress: r.Header.Get(proxy.ProgressHeader),
		Keep: p.o.Keep, MaxStream: p.o.MaxStream, MaxMemory: p.o.MaxMemory,
	}
	e.Owner = p.owner(r, r.URL.Path)
	if a.key != "" {
		e.Key = keyOf(p.o.Secret, e.Owner, r.URL.RawQuery, a.key)
		e.Body = sha256.Sum256(body)
	}
	for {
		x := newRun(p, e, a.detach, w, r, body)
		have, writer, err := p.o.Store.Claim(r.Context(), e, x.callbacks())
		switch {
		case errors.Is(err, ErrTaken): // the agent must not run again
			unavailable().send(w)
			return nil
		case err != nil:
			giveBody(r, body)
			return next(w, r) // there is no log to be had
		case writer != nil:
			x.w = writer
			return x.start(w, r, body, next)
		case !hmac.Equal(have.Body[:], e.Body[:]):
			mismatch().send(w)
			return nil
		}
		if err := p.follow(w, r, have.ID, following{replayed: true}); !errors.Is(err, ErrDropped) {
			return err
		}
		// The request that had the key has failed: this one takes its place.
	}
}

// resume answers a request for the events after a position of a log. If it has a key, that
// must be the log's.
func (p *Resume) resume(w http.ResponseWriter, r *http.Request, resource string, at position, key string) error {
	e, err := p.find(r, resource, at.id)
	if err != nil {
		missing(err).send(w)
		return nil
	}
	f := following{continued: at.n > 0, after: at.n}
	if key == "" && !skipBody(r) {
		unreadable().send(w)
		return nil
	}
	if key != "" {
		if e.Key != keyOf(p.o.Secret, e.Owner, r.URL.RawQuery, key) {
			otherKey().send(w)
			return nil
		}
		body, ok := p.readBody(r)
		if is := sha256.Sum256(body); !ok || !hmac.Equal(is[:], e.Body[:]) {
			mismatch().send(w)
			return nil
		}
		f.replayed = true
	}
	if err := p.follow(w, r, at.id, f); !errors.Is(err, ErrDropped) {
		return err
	}
	unknown().send(w)
	return nil
}

// following is how a client reads a log that is not of its own request.
type following struct {
	replayed  bool
	continued bool
	after     uint64 // the event with this number
}

// statusGone is the status that is logged for a client that has left (Caddy:
// reverseproxy.go:1774).
const statusGone = 499

// follow answers r with the events of the log with the id, and those that are still to come. It returns
// ErrDropped, and has not answered, if there is no such log after all.
func (p *Resume) follow(w http.ResponseWriter, r *http.Request, id string, f following) error {
	reader := p.o.Store.Read(r.Context(), id, f.after)
	defer reader.Close()
	first, err := reader.Next()
	atEnd := errors.Is(err, io.EOF)
	var old *GoneError
	switch {
	case errors.Is(err, ErrDropped):
		return err
	case errors.As(err, &old):
		gone(old.First).send(w)
		return nil
	case errors.Is(err, ErrAhead):
		ahead().send(w)
		return nil
	case err != nil && !atEnd && r.Context().Err() == nil:
		unavailable().send(w)
		return nil
	case err != nil && !atEnd:
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
	if c := &p.o.Runs.count; f.continued {
		c.continued.Add(1)
	} else {
		c.replayed.Add(1)
	}
	if f.replayed {
		w.Header().Set(ReplayedHeader, "true")
	}
	w.WriteHeader(http.StatusOK)
	if err := http.NewResponseController(w).Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil // it has left
	}
	n, err := p.send(w, reader)
	p.o.Observer.Answered(r, Answered{Replayed: f.replayed || !f.continued, Continued: f.continued, Bytes: n, Err: err})
	return cutOff(err)
}

// send sends what the reader returns, each piece as it comes, until the end. The error is a
// *GoneError, ErrBroken, or that of a client that has left.
func (p *Resume) send(w http.ResponseWriter, reader Reader) (n int64, err error) {
	readers := &p.o.Runs.count.readers
	readers.Add(1)
	defer readers.Add(-1)
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
	var old *GoneError
	if errors.As(err, &old) || errors.Is(err, ErrBroken) {
		panic(http.ErrAbortHandler)
	}
	return nil
}

// headerOf returns what next has set in its header, and nil for each field that it has
// deleted. The others are the client's own.
func headerOf(next, before http.Header) http.Header {
	h := make(http.Header, len(next)+1)
	for name, values := range next {
		if was, ok := before[name]; !ok || !slices.Equal(values, was) {
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

// setHeader sets in h what headerOf has returned.
func setHeader(h, set http.Header) {
	for name, values := range set {
		if values == nil {
			delete(h, name)
			continue
		}
		h[name] = slices.Clone(values)
	}
}

// cancel answers a request to end a stream.
func (p *Resume) cancel(w http.ResponseWriter, r *http.Request, resource, id string) error {
	_, err := p.find(r, resource, id)
	if err == nil {
		err = p.o.Store.Delete(r.Context(), id)
	}
	if err != nil {
		missing(err).send(w)
		return nil
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// find returns the entry of the log with the id. The error is ErrDropped if r may not have it.
func (p *Resume) find(r *http.Request, resource, id string) (Entry, error) {
	e, err := p.o.Store.Find(r.Context(), id)
	if err != nil {
		return Entry{}, err
	}
	if is := p.owner(r, resource); !hmac.Equal(is[:], e.Owner[:]) {
		return Entry{}, ErrDropped
	}
	return e, nil
}
