package resume

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// Resume lets the answers of a handler outlive their connections. It is safe for
// concurrent use.
type Resume struct {
	o *Options
}

// New returns a Resume with the options.
func New(o Options) *Resume { return &Resume{&o} }

// Handler returns a handler that lets the answers of next outlive their connections.
func (p *Resume) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// next returns no errors, so there is none to return.
		_ = p.Serve(w, r, func(w http.ResponseWriter, r *http.Request) error {
			next.ServeHTTP(w, r)
			return nil
		})
	})
}

// Serve answers r: from a log if r asks for one, and otherwise by next. A request that asks for
// nothing from this package goes to next as it is.
//
// An error or a panic of next goes on in the goroutine of the client that next was called for, as
// long as that client is there. Otherwise Options.Ended gets it.
func (p *Resume) Serve(w http.ResponseWriter, r *http.Request, next Next) error {
	return answerProblem(w, p.serve(w, r, next))
}

func (p *Resume) serve(w http.ResponseWriter, r *http.Request, next Next) error {
	at, bad := lastEvent(r.Header)
	resource, id, names := named(r.URL.Path)
	if of, ok := asksForResponse(r); ok {
		answered, err := responses{p.o}.serveResponse(w, r, of, at, bad)
		if answered {
			return err
		}
	}
	switch {
	case (r.Method == http.MethodGet || r.Method == http.MethodHead) && isEvents(r.URL.Path):
		return runEvents{p.o}.serveEvents(w, r, next)
	case r.Method == http.MethodPost:
		if rewrite.IsRunsPath(r.URL.Path) {
			next = runEvents{p.o}.keeping(next)
		}
		t, wantsLog, wrong := termsOf(p.o, r)
		switch {
		case wrong != nil:
			return wrong
		case bad:
			return errNoEvent
		case at.id != "":
			return p.resume(w, r, r.URL.Path, at, t.key)
		case wantsLog, bodyMayWantLog(p.o, r):
			return p.post(w, r, t, wantsLog, next)
		}
	case !names:
	case r.Method == http.MethodGet, r.Method == http.MethodHead:
		if bad || at.id != "" && at.id != id {
			return errNoEvent
		}
		return p.resume(w, r, resource, position{id, at.n}, "")
	case r.Method == http.MethodDelete:
		return p.delete(w, r, resource, id)
	}
	return next(w, r)
}

// post answers r from a log: the one of its key, or a new one. If wantsLog is false, only the body may
// ask for a log; if it does not, r goes to next.
func (p *Resume) post(w http.ResponseWriter, r *http.Request, t terms, wantsLog bool, next Next) error {
	body, ok := t.read(p.o, r, wantsLog)
	if !ok {
		return next(w, r)
	}
	e := entryOf(p.o, r, t, body)
	for {
		x := newRun(p.o, e, t, w, r)
		have, claimed, err := x.claim(r.Context())
		switch {
		case mustNotRun(err) != nil:
			return mustNotRun(err)
		case err != nil:
			giveBody(r, body)
			return next(w, r) // no log is available
		case claimed:
			return x.attend(w, r, body, seen{}, next)
		case !hmac.Equal(have.Body[:], e.Body[:]):
			return mismatch(e)
		}
		again := repeatAfter(p.o, r, have, 0)
		again.hasKey = true
		err = follow(p.o, w, r, again)
		gone, _ := errors.AsType[*problem](err)
		switch {
		case errors.Is(err, errUnknown): // the request that had the key has failed: this one takes its place
		case errors.Is(err, errNoBeginning), t.key == "" && gone != nil && gone.Status == http.StatusGone:
			e.Takes = true
		default:
			return err
		}
	}
}

// resume answers a request for the events of a log after the position at. key must be that of the
// log, or empty.
func (p *Resume) resume(w http.ResponseWriter, r *http.Request, resource string, at position, key string) error {
	e, err := p.find(r, resource, at.id)
	if err != nil {
		return err
	}
	switch {
	case key == "":
		if r.Body != nil { // net/http notices that a client has left only after the body was read
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return errUnreadable
			}
		}
	case e.Key != keyOf(p.o.Secret, e.Owner, r.URL.RawQuery, key):
		return errOtherKey
	default:
		body, ok := readBody(r, p.o.MaxRequest())
		if is := sha256.Sum256(body); !ok || !hmac.Equal(is[:], e.Body[:]) {
			return errMismatch
		}
	}
	again := repeatAfter(p.o, r, e, at.n)
	again.hasKey = key != ""
	return follow(p.o, w, r, again)
}

// delete answers a request to end a stream.
func (p *Resume) delete(w http.ResponseWriter, r *http.Request, resource, id string) error {
	err := p.deleteLog(r, resource, id)
	for err == nil || errors.Is(err, errUnknown) { // if the run was split, the logs that follow may still be there
		id = restOf(p.o.Secret, id)
		rest := p.deleteLog(r, resource, id)
		if rest != nil && err == nil { // most streams have no rest: its error does not matter
			w.WriteHeader(http.StatusNoContent)
			return nil
		}
		if err = rest; err != nil {
			break
		}
	}
	return err
}

// deleteLog deletes the log with the id, or returns a problem.
func (p *Resume) deleteLog(r *http.Request, resource, id string) error {
	if _, err := p.find(r, resource, id); err != nil {
		return err
	}
	if err := p.o.Store.Delete(r.Context(), id); err != nil {
		return problemOf(err)
	}
	return nil
}

// find returns the entry of the log with the id, or a problem if r may not have it.
func (p *Resume) find(r *http.Request, resource, id string) (entry, error) {
	e, err := find(r.Context(), p.o.Store, id)
	if err != nil {
		return entry{}, problemOf(err)
	}
	if is := owner(p.o, r, resource); !hmac.Equal(is[:], e.Owner[:]) {
		return entry{}, errUnknown
	}
	return e, nil
}
