package resume

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// The stream of a response of /v1/responses has a second name, the id of the response, by which
// every SDK of OpenAI can ask for it. The name is a log of its own without an answer. It is claimed
// before the event with the id is in the log of the stream, so that a client that knows the id
// finds it. It ends with the run. A response that a client has cancelled has another such log,
// because its stream is deleted.

// responses answers the requests for responses by their own ids.
type responses struct{ o *Options }

// responseAsked is a request for a response by its id.
type responseAsked struct {
	resource string // the path of the request that began it
	id       string
	cancels  bool
	query    url.Values // of a request for the stream
}

// asksForResponse returns the response that r asks for by its id, and reports whether r asks for
// its stream or to cancel it.
func asksForResponse(r *http.Request) (of responseAsked, ok bool) {
	path := r.URL.Path
	switch r.Method {
	case http.MethodGet:
		if !strings.Contains(r.URL.RawQuery, "stream=") {
			return of, false
		}
		of.query = r.URL.Query()
		if stream, err := strconv.ParseBool(of.query.Get("stream")); err != nil || !stream {
			return of, false
		}
	case http.MethodPost:
		if path, of.cancels = strings.CutSuffix(path, cancelSuffix); !of.cancels {
			return of, false
		}
	default:
		return of, false
	}
	i := strings.LastIndexByte(path, '/')
	of.resource, of.id = path[:max(i, 0)], path[i+1:]
	return of, rewrite.IsResponsesPath(of.resource) && !log.IsID(of.id)
}

// cancelSuffix follows the id of a response in the path that cancels it.
const cancelSuffix = "/cancel"

// ownerOf returns the owner of the response that r asks for.
func (p responses) ownerOf(r *http.Request, of responseAsked) log.Digest {
	server, path := p.o.Target(r)
	if of.cancels {
		path = strings.TrimSuffix(path, cancelSuffix)
	}
	return ownerAt(p.o, r, of.resource, server, strings.TrimSuffix(path, "/"+of.id))
}

// name returns the entry of the name of a kind that the owner's response has.
func (p responses) name(ctx context.Context, owner log.Digest, kind, id string) (entry, error) {
	name, _ := nameOf(p.o.Secret, owner, kind, id)
	return find(ctx, p.o.Store, name)
}

// serveResponse answers r, which asks for a response by its id, if the id is the name of a log. at and
// bad are the results of lastEvent.
func (p responses) serveResponse(w http.ResponseWriter, r *http.Request, of responseAsked, at position, bad bool) (answered bool, err error) {
	owner := p.ownerOf(r, of)
	name, err := p.name(r.Context(), owner, nameOpen, of.id)
	var e entry
	if err == nil {
		e, err = find(r.Context(), p.o.Store, name.Of)
	}
	if of.cancels && errors.Is(err, log.ErrDropped) {
		if before, err := p.name(r.Context(), owner, nameCancelled, of.id); err == nil {
			sendResponse(w, before.Cancelled)
			return true, nil
		}
	}
	switch {
	case errors.Is(err, log.ErrDropped):
		return false, nil
	case err != nil:
		return true, problemOf(err)
	case of.cancels:
		err = p.cancel(w, r, name, of.id)
	case bad || at.id != "" && at.id != name.Of:
		return true, errNoEvent
	case at.id != "":
		err = follow(p.o, w, r, repeatAfter(p.o, r, e, at.n))
	default:
		err = p.after(w, r, e, of.query.Get("starting_after"))
	}
	return !errors.Is(err, errUnknown), err
}

// after answers r with the events of the stream of e after the one with the sequence_number
// in last, or with all if last is empty.
func (p responses) after(w http.ResponseWriter, r *http.Request, e entry, last string) error {
	if last == "" {
		return follow(p.o, w, r, repeatAfter(p.o, r, e, 0))
	}
	sequence, err := strconv.ParseInt(last, 10, 64)
	if err != nil || sequence < 0 {
		return errBadStartingAfter
	}
	n, seeker, err := seek(r.Context(), p.o.Store, e.ID, sequence)
	// A run may end without a reader, so the next reader joins before the seeker leaves.
	reader := p.o.Store.Read(r.Context(), e.ID, n)
	seeker.Close()
	if err != nil {
		reader.Close()
		return problemOf(err)
	}
	again := repeatOf(e, reader, true)
	again.emptyEnd = true // with 204, openai-node fails
	return follow(p.o, w, r, again)
}

// cancel answers a request to cancel the response with the name: with the response as
// cancelled, or as it has ended. It returns errUnknown if the run is over and has left no response.
func (p responses) cancel(w http.ResponseWriter, r *http.Request, name entry, id string) error {
	answer, err := ended(r.Context(), p.o.Store, name.Of)
	switch {
	case errors.Is(err, errUnknown):
		return errUnknown
	case err != nil:
		return problemOf(err)
	case answer != "":
		sendResponse(w, answer)
		return nil
	}
	if err := p.o.Store.Delete(r.Context(), name.Of); err != nil && !errors.Is(err, log.ErrDropped) {
		return problemOf(err)
	}
	cancelled := name
	cancelled.ID, cancelled.Key = nameOf(p.o.Secret, name.Owner, nameCancelled, id)
	if w := claimEmpty(r.Context(), p.o.Store, cancelled); w != nil {
		endName(w) // for clients that cancel it again
	}
	sendResponse(w, name.Cancelled)
	return nil
}

// sendResponse answers with response, which is JSON.
func sendResponse(w http.ResponseWriter, response string) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(response)))
	h.Set("Cache-Control", "no-store")
	_, _ = io.WriteString(w, response) // an error cannot be sent either
}
