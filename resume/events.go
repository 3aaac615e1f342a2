package resume

import (
	"crypto/hmac"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
	"github.com/hermes-sidecar/hermes-sidecar/internal/panics"
	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// The events of Hermes' runs. POST /v1/runs begins a run of Hermes, which goes on without a client,
// and GET /v1/runs/{id}/events reads its events. Hermes up to 0.21 gives each event to one reader,
// and drops the rest when that reader leaves. So the only reader is a run of this package, whose
// log all clients read. It begins after the answer to the POST or, if there is no log, with the
// first client that asks for events. The ids of the events are plain numbers from 0 on, as newer
// versions of Hermes number them. With 0.22, which repeats events, the log begins with event 0,
// whatever event its first client has.
//
// A client may read the log if it has the credentials of the request that began the log, or if
// upstream gives it the status of the run, which takes no event. Only upstream knows all forms of
// its key.
//
// The end of this run ends no run of Hermes. Once it has an event, it goes on without clients until
// upstream ends the events, and does not count for MaxDetached. If upstream's stream breaks off and
// its events have numbers, the run asks upstream for the rest. If that fails, or if the run is
// cancelled and can ask again or has no client, its log is deleted, and the next client begins
// another.

// runEvents answers the requests for the events of runs.
type runEvents struct{ o *Options }

// isEvents reports whether a GET of the path asks for the events of a run.
func isEvents(path string) bool {
	id := rewrite.RunOfPath(path)
	return id != "" && rewrite.IsRunsPath(strings.TrimSuffix(path, eventsOf(id)))
}

// eventsOf returns the suffix that turns the path of a POST that begins runs into the path of the
// events of the run with the id.
func eventsOf(id string) string { return "/" + id + eventsSuffix }

// eventsSuffix follows the id of a run in the path of its events.
const eventsSuffix = "/events"

// ofEvents returns the entry of the log of the events of the run with the id. r has begun the run,
// or asks for its events. base is the path of the POST that begins runs.
func (p runEvents) ofEvents(r *http.Request, base, id string) entry {
	e := entry{
		Entry: log.Entry{Keep: p.o.Keep, MaxStream: p.o.MaxStream, MaxMemory: p.o.MaxMemory, Weak: true},
		about: about{Path: base + eventsOf(id), Plain: true},
	}
	server, path := p.o.Target(r)
	path, _, _ = strings.Cut(path, "/"+id) // not base, which a handler in front may have rewritten
	e.Owner = ownerAt(p.o, r, base, server, path)
	// No key of a client has this form. Clients with other credentials also find the log.
	e.Key = hash(p.o.Secret, [][]string{{r.Host, base}, {server, path}, {"events", id}})
	e.ID = log.NewID(e.Key)
	return e
}

// keeping returns a Next that calls next with a request that begins runs. If next answers
// with a run, it starts to keep the events of that run.
func (p runEvents) keeping(next Next) Next {
	return func(w http.ResponseWriter, r *http.Request) error {
		// next may change r, and objects in its context.
		x := newRun(p.o, entry{about: about{Plain: true}}, terms{}, nil, r)
		x.life.goOn()
		client, up := r.Clone(r.Context()), toEvents(r.Clone(x.ctx))
		up, _ = p.o.Detached(up, x.answer)
		begun := &begun{ResponseWriter: w}
		err := next(begun, r)
		id := rewrite.BegunRun(begun.body)
		if err != nil || id == "" {
			return err
		}
		e := p.ofEvents(client, client.URL.Path, id)
		x.answer.entry = e
		up.URL.Path, up.URL.RawPath = e.Path, ""
		up.RequestURI = up.URL.RequestURI()
		// The client's answer does not wait for the storage, whose panic would end the process.
		go func() {
			if late, ok := panics.Catch(func() { p.keep(x, up, next) }).(*panics.Late); ok {
				p.o.Ended(up, Ended{Panicked: late})
			}
		}()
		return nil
	}
}

// keep makes x read the events of the run that has begun, with the request up. If a client has
// begun the log already, x also reads it: upstream may drop all events if that client leaves before
// one.
func (p runEvents) keep(x *run, up *http.Request, next Next) {
	for {
		have, claimed, err := x.claim(x.ctx)
		switch {
		case err != nil:
		case !claimed && p.awaitEvent(x, have.ID):
			continue
		case !claimed:
		case !p.o.Runs.admitPlain():
			x.answer.log.End(log.Dropped)
		default:
			x.call(up, x.answer.persistent(next))
		}
		return
	}
}

// awaitEvent makes x read the plain log with the id until the process ends or the log has an event,
// after which its run goes on without readers. It reports whether the log was dropped before.
func (p runEvents) awaitEvent(x *run, id string) (dropped bool) {
	p.o.Runs.add(x.life, false)
	defer p.o.Runs.forget(x.life)
	reader := p.o.Store.Read(x.ctx, id, 0)
	defer reader.Close()
	var lines plainLines
	for {
		part, err := reader.Next()
		if err != nil {
			return errors.Is(err, log.ErrDropped)
		}
		lines.feed(part.Data)
		for l, ok := lines.next(); ok; l, ok = lines.next() {
			if l.endsEvent {
				return false
			}
		}
	}
}

// toEvents turns r, a clone, into a GET of all events of a run, and returns it. It leaves the path.
func toEvents(r *http.Request) *http.Request {
	r.Method, r.Body, r.ContentLength, r.TransferEncoding = http.MethodGet, http.NoBody, 0, nil
	for _, name := range []string{"Content-Type", "Content-Length", "Content-Encoding", "Expect", KeyHeader, LastEventHeader} {
		delete(r.Header, name)
	}
	r.Header["Accept"], r.Header["Accept-Encoding"] = []string{"text/event-stream"}, []string{"identity"}
	if q := r.URL.Query(); q.Has(lastSeq) {
		q.Del(lastSeq)
		r.URL.RawQuery = q.Encode()
		r.RequestURI = r.URL.RequestURI()
	}
	return r
}

// begun is the http.ResponseWriter of an answer that may begin a run.
type begun struct {
	http.ResponseWriter
	status int
	body   []byte
}

func (b *begun) WriteHeader(status int) {
	if b.status < http.StatusOK {
		b.status = status
	}
	b.ResponseWriter.WriteHeader(status)
}

func (b *begun) Write(p []byte) (int, error) {
	if b.status == http.StatusAccepted {
		b.body = append(b.body, p[:min(len(p), rewrite.MaxRunAnswer+1-len(b.body))]...)
	}
	return b.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (b *begun) Unwrap() http.ResponseWriter { return b.ResponseWriter }

// serveEvents answers a request for the events of a run from their log. A GET begins the log if there is
// none. A HEAD never goes to upstream, which would answer it as a GET, and lose events.
func (p runEvents) serveEvents(w http.ResponseWriter, r *http.Request, next Next) error {
	id := rewrite.RunOfPath(r.URL.Path)
	e := p.ofEvents(r, strings.TrimSuffix(r.URL.Path, eventsOf(id)), id)
	// net/http notices that a client has left only after the body was read.
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body) // its content does not matter
	}
	all, seen, isHead := toEvents(r.Clone(r.Context())), seenBy(r), r.Method == http.MethodHead
	for isAdmitted := false; ; {
		x := newRun(p.o, e, terms{wants: true}, w, all)
		have, claimed, err := x.claim(r.Context())
		switch {
		case mustNotRun(err) != nil: // a second reader would take events from the first one
			return mustNotRun(err)
		case err != nil && isHead:
			return errNotKept
		case err != nil:
			return next(w, r) // no log is available
		case claimed && isHead:
			x.answer.log.End(log.Dropped)
			return errNotKept
		case claimed && !p.o.Runs.admitPlain():
			x.answer.log.End(log.Dropped)
			return next(w, r)
		case claimed:
			return x.attend(w, all, nil, seen, x.answer.persistent(next))
		}
		if !isAdmitted && !hmac.Equal(have.Owner[:], e.Owner[:]) {
			if isAdmitted, err = p.admits(w, all, next); !isAdmitted {
				return err
			}
		}
		if err := seen.follow(p.o, w, r, have.ID); !errors.Is(err, errUnknown) {
			return err
		}
		// The answer was no stream, or was cut short: this request takes its place.
	}
}

// admits reports whether upstream gives a client the status of the run whose events the request
// events asks for. If not, the client gets the answer of upstream. Only a status admits it.
func (p runEvents) admits(w http.ResponseWriter, events *http.Request, next Next) (bool, error) {
	r := events.Clone(events.Context())
	r.URL.Path, r.URL.RawPath = strings.TrimSuffix(r.URL.Path, eventsSuffix), ""
	r.RequestURI = r.URL.RequestURI()
	r.Header["Accept"] = []string{"application/json"}
	for _, name := range []string{"If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If-Range", "Range"} {
		delete(r.Header, name)
	}
	g := &gate{client: w, header: w.Header().Clone()}
	r, returned := p.o.Detached(r, g)
	err := next(g, r)
	returned()
	switch {
	case g.isOpen:
		return true, nil
	case !g.decided:
		head.Copy(w.Header(), g.header) // for the handler in front that answers instead
	}
	return false, err
}

// gate is the http.ResponseWriter of a request for a status. It passes other answers to the client.
type gate struct {
	client  http.ResponseWriter
	header  http.Header
	decided bool
	isOpen  bool // the answer is a status
}

func (g *gate) Header() http.Header { return g.header }

func (g *gate) WriteHeader(status int) {
	if g.decided || status < http.StatusOK {
		return
	}
	g.decided = true
	if g.isOpen = status == http.StatusOK && head.IsJSON(g.header); !g.isOpen {
		head.Copy(g.client.Header(), g.header)
		g.client.WriteHeader(status)
	}
}

func (g *gate) Write(p []byte) (int, error) {
	if g.WriteHeader(http.StatusOK); g.isOpen {
		return len(p), nil
	}
	return g.client.Write(p)
}

// FlushError implements the flushing of http.ResponseController.
func (g *gate) FlushError() error {
	if g.WriteHeader(http.StatusOK); g.isOpen {
		return nil
	}
	return http.NewResponseController(g.client).Flush()
}
