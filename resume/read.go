package resume

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"sync"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
)

// statusGone is the status that is logged for a client that has left (Caddy:
// reverseproxy.go:1774).
const statusGone = 499

// attend calls next and answers the first client, which reads the log as others do.
func (x *run) attend(w http.ResponseWriter, r *http.Request, body []byte, next Next) error {
	reader := x.o.Store.Read(r.Context(), x.entry.ID, 0)
	x.start(r, body, next)
	leave := sync.OnceValue(func() bool {
		reader.Close()
		return x.leave()
	})
	defer leave() // also if w panics
	first, err := reader.Next()
	streams := err == nil || errors.Is(err, io.EOF)
	if streams {
		header := first.Header.Clone()
		maps.Copy(header, x.own)
		flushes := func(wrote bool) bool { return x.early || wrote && (first.Status == 0 || x.flushed.Load()) }
		err = send(x.o, w, r, reader, first.Status, header, flushes, HowBegun)
	}
	if leave() {
		if !streams {
			w.WriteHeader(statusGone)
		}
		return cutOff(err)
	}
	stop := context.AfterFunc(r.Context(), func() { x.abort(context.Cause(r.Context())) })
	<-x.done
	stop()
	x.returned()
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

// follow answers r, which is not the log's own request, with the events of the log with the id
// after the number n, and those that are still to come. If it returns a problem, it has not
// answered.
func follow(o *Options, w http.ResponseWriter, r *http.Request, id string, n uint64, hasKey bool) error {
	reader := o.Store.Read(r.Context(), id, n)
	defer reader.Close()
	first, err := reader.Next()
	atEnd := errors.Is(err, io.EOF)
	if err != nil && !atEnd {
		p := problemOf(err)
		if p.Status == http.StatusGone && first.Status != 0 {
			return errNoBeginning
		}
		if p != errUnavailable || r.Context().Err() == nil {
			return p
		}
		w.WriteHeader(statusGone)
		return nil
	}
	if r.Method != http.MethodPost && n > 0 && atEnd {
		// So that an EventSource, which takes every end for a failure, stops.
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	header := first.Header.Clone()
	if r.Method == http.MethodHead {
		setHeader(w.Header(), header)
		w.WriteHeader(cmp.Or(first.Status, http.StatusOK))
		return nil
	}
	if hasKey {
		header.Set(ReplayedHeader, "true")
	}
	how := HowReplayed
	if n > 0 {
		how = HowContinued
	}
	// Without a media type, net/http looks for it in what comes with the header.
	flushes := func(wrote bool) bool { return wrote || first.Status == 0 }
	return cutOff(send(o, w, r, reader, first.Status, header, flushes, how))
}

// send answers r with the status, 0 for 200, the header and what the reader returns, each piece
// as it comes, until the end. The error is a *GoneError, ErrBroken, or that of a client that has
// left. The function flushes says whether to flush: the header, or what it says was written.
func send(
	o *Options, w http.ResponseWriter, r *http.Request, reader Reader,
	status int, header http.Header, flushes func(wrote bool) bool, how How,
) error {
	o.Runs.count(func(s *Stats) {
		s.Readers++
		s.TotalAttached[how]++
	})
	defer o.Runs.count(func(s *Stats) { s.Readers-- })
	setHeader(w.Header(), header)
	w.WriteHeader(cmp.Or(status, http.StatusOK))
	err := copyLog(w, reader, flushes)
	o.Answered(r, how)
	return err
}

// copyLog writes what the reader returns, and flushes as send does.
func copyLog(w http.ResponseWriter, reader Reader, flushes func(wrote bool) bool) error {
	control := http.NewResponseController(w)
	for wrote := false; ; wrote = true {
		if flushes(wrote) {
			if err := control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
				return err
			}
		}
		part, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			_, err = w.Write(part.Data)
		}
		if err != nil {
			return err
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

// setHeader sets in h what changes has returned.
func setHeader(h, set http.Header) {
	for name, values := range set {
		if values == nil {
			delete(h, name)
			continue
		}
		h[name] = values
	}
}
