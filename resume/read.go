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
	e := x.entry // a split changes it
	var reader Reader
	defer func() {
		if reader == nil { // Read panics: only a run ends the log, and gives its place back
			x.start(r, nil, func(http.ResponseWriter, *http.Request) error { return errUnavailable })
			<-x.done
			x.returned()
		}
	}()
	reader = x.seen.skip(x.o.Store.Read(r.Context(), e.ID, 0))
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
		if streams && err == nil && e.Frees { // it has all of what came before a split
			free(x.o, r, e.ID)
		}
		return cutOff(err)
	}
	stop := context.AfterFunc(r.Context(), func() { x.abort(context.Cause(r.Context())) })
	<-x.done
	stop()
	x.returned()
	if streams && err == nil {
		head.CopyTrailers(w.Header(), x.header)
		if e.Frees {
			free(x.o, r, e.ID)
		}
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

// A repeat is how a client reads a log whose own request it has not sent.
type repeat struct {
	reader    Reader
	continues bool   // the client has the events before
	emptyEnd  bool   // an answer that would have no events has an empty body, not 204
	hasKey    bool   // it has sent the log's key
	frees     string // the id of the log if its key is free when the client has been sent all
}

// repeatAfter returns the repeat for r of the events after the number n of the log of e.
func repeatAfter(o *Options, r *http.Request, e Entry, n uint64) repeat {
	return repeatOf(e, o.Store.Read(r.Context(), e.ID, n), n > 0)
}

// repeatOf returns the repeat by the reader of the log of e.
func repeatOf(e Entry, reader Reader, continues bool) repeat {
	a := repeat{reader: reader, continues: continues}
	if e.Frees {
		a.frees = e.ID
	}
	return a
}

// follow answers r with what the reader of a repeat returns, which it closes. If it returns a
// problem, it has not answered.
func follow(o *Options, w http.ResponseWriter, r *http.Request, a repeat) error {
	defer a.reader.Close()
	first, err := a.reader.Next()
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
	if r.Method != http.MethodPost && a.continues && !a.emptyEnd && atEnd {
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
	if a.hasKey {
		header.Set(ReplayedHeader, "true")
	}
	how := HowReplayed
	if a.continues {
		how = HowContinued
	}
	// Without a media type, net/http looks for it in what comes with the header.
	flushes := func(wrote bool) bool { return wrote || first.Status == 0 }
	err = send(o, w, r, a.reader, first.Status, header, flushes, how)
	if err == nil && a.frees != "" {
		free(o, r, a.frees)
	}
	return cutOff(err)
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
