package resume

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// statusGone is the status that is logged for a client that has left (Caddy:
// reverseproxy.go:1774).
const statusGone = 499

// A repeat says how a client reads a log that another request has begun.
type repeat struct {
	reader    log.Reader
	continues bool   // the client has the events before those it asks for
	emptyEnd  bool   // an answer that would have no events has an empty body, not 204
	hasKey    bool   // the client has sent the log's key
	frees     string // the id of the log, if its key is free after the client was sent all of it
}

// repeatAfter returns a repeat that answers r with the events after the number n of the log of e.
func repeatAfter(o *Options, r *http.Request, e entry, n uint64) repeat {
	return repeatOf(e, o.Store.Read(r.Context(), e.ID, n), n > 0)
}

// repeatOf returns a repeat that reads the log of e with reader.
func repeatOf(e entry, reader log.Reader, continues bool) repeat {
	a := repeat{reader: reader, continues: continues}
	if e.Once {
		a.frees = e.ID
	}
	return a
}

// follow answers r with the parts that the reader of a returns, and closes the reader. If it
// returns a problem, it has not answered.
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
		// This stops an EventSource, which treats every other end as a failure.
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	header := first.Header.Clone()
	withholdOrigin(header, r)
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
	// Without a media type, net/http detects it from the data that is written with the header.
	flushes := func(wrote bool) bool { return wrote || first.Status == 0 }
	err = send(o, w, r, a.reader, first.Status, header, flushes, how)
	if err == nil && a.frees != "" {
		free(o, r, a.frees)
	}
	return cutOff(err)
}

// send answers r with status, 0 for 200, header and the parts that reader returns, each as soon
// as it is there, until the end. The error is a *GoneError, ErrBroken, or due to a client that has left.
// flushes reports whether to flush after the header (wrote is false) and after each part.
func send(
	o *Options, w http.ResponseWriter, r *http.Request, reader log.Reader,
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

// copyLog writes the parts that reader returns, and flushes as send does.
func copyLog(w http.ResponseWriter, reader log.Reader, flushes func(wrote bool) bool) error {
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

// cutOff aborts the connection if err says that the client is there but has not got all events, so
// that the client notices.
func cutOff(err error) error {
	if _, gone := errors.AsType[*log.GoneError](err); gone || errors.Is(err, log.ErrBroken) {
		panic(http.ErrAbortHandler)
	}
	return nil
}

// withholdOrigin drops the fields of header that say what a page may read, if upstream has said that to
// a page of another origin than the one that sends r: Access-Control-Allow-Origin names it.
func withholdOrigin(header http.Header, r *http.Request) {
	switch header.Get("Access-Control-Allow-Origin") {
	case "", "*", r.Header.Get("Origin"):
		return
	}
	maps.DeleteFunc(header, func(name string, _ []string) bool { return strings.HasPrefix(name, "Access-Control-") })
}

// setHeader applies set, a result of changes, to h: a nil value deletes the field.
func setHeader(h, set http.Header) {
	for name, values := range set {
		if values == nil {
			delete(h, name)
			continue
		}
		h[name] = values
	}
}

// freeTimeout is how long the end of an answer waits for a storage to free its key.
const freeTimeout = time.Second

// free deletes the log with the id, whose key is from Options.Key, after all of it was sent to
// the client of r. It does nothing if that client is known to have left. A user who regenerates the
// answer sends the same request, and wants another answer. If the storage does not answer, the log
// stays for Entry.Keep.
func free(o *Options, r *http.Request, id string) {
	if r.Context().Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), freeTimeout)
	defer cancel()
	_ = o.Store.Delete(ctx, id)
}
