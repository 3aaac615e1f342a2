package resume

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// The stream of a response of /v1/responses has a second name, the id of the response, by which
// every SDK of OpenAI can ask for it. The name is a log of its own without an answer. It is claimed
// before the event with the id is in the log of the stream, so that a client that knows the id
// finds it. It ends with the run. A response that a client has cancelled has another such log,
// because its stream is deleted.

// Bounds of what is read from a response's stream.
const (
	// maxCreated is how many bytes at the beginning of a stream are searched for the id of its
	// response. Hermes' first event has 200.
	maxCreated = 16 << 10
	// maxSought is the size in bytes above which an event is not searched for its number.
	maxSought = 1 << 20
	// namePatience is how long the first event of a response waits for a storage to take its name.
	namePatience = time.Second
)

// responseEvent has the members that are read of an event of a response.
type responseEvent struct {
	Type     string          `json:"type"`
	Number   *int64          `json:"sequence_number"`
	Response json.RawMessage `json:"response"`
}

// readEvent returns the event in the data of a frame, zero if it is no event of a response.
func readEvent(data []byte) responseEvent {
	var e responseEvent
	if json.Unmarshal(rewrite.Finite(data), &e) != nil {
		return responseEvent{}
	}
	return e
}

// responseName finds the id of the response in the stream of a run, and has the log that makes it
// another name of the log of the run. Only the goroutine of next uses it. If nil, it does nothing.
type responseName struct {
	frames sse.Scanner
	left   int        // how many bytes it still looks at
	log    log.Writer // nil if there is none
}

func newResponseName() *responseName {
	return &responseName{frames: sse.Scanner{MaxFrame: maxCreated}, left: maxCreated}
}

// look looks for the id in p, the next bytes of the answer a, and claims the name.
func (n *responseName) look(a *answer, p []byte) {
	if n == nil || n.left == 0 {
		return
	}
	p = p[:min(len(p), n.left)]
	n.left -= len(p)
	n.frames.Feed(p)
	var frame sse.Frame
	for u, b, ok := n.frames.Next(); ok; u, b, ok = n.frames.Next() {
		if u != sse.UnitFrame {
			continue
		}
		frame.Parse(b)
		e := readEvent(frame.Data)
		if id, cancelled := cancelledOf(e.Response); e.Type == "response.created" && id != "" {
			n.left = 0
			n.log = claimName(a, id, cancelled)
			break
		}
	}
	if n.frames.Rest(); n.left == 0 {
		n.frames = sse.Scanner{}
	}
}

// end ends the log of the name.
func (n *responseName) end() {
	if n != nil && n.log != nil {
		endName(n.log)
	}
}

// endName ends w, a log without an answer.
func endName(w log.Writer) {
	_ = w.Append(context.Background(), log.Part{Header: make(http.Header)}) // only a log that has begun is kept
	w.End(log.Whole)
}

// cancelledOf returns the id of response, "" if it has none, and response with the status that the
// answer to a cancel request has.
func cancelledOf(response json.RawMessage) (id, cancelled string) {
	var members map[string]json.RawMessage
	if json.Unmarshal(response, &members) != nil || json.Unmarshal(members["id"], &id) != nil {
		return "", ""
	}
	members["status"] = json.RawMessage(`"cancelled"`)
	text, _ := json.Marshal(members) // valid JSON
	return id, string(text)
}

// claimName makes the id of a response another name of the log of a. It returns nil if the store
// gives no log for the name, or another stream has it. cancelled is the answer to a cancel request.
func claimName(a *answer, id, cancelled string) log.Writer {
	ctx, stop := context.WithTimeout(a.ctx, namePatience)
	defer stop()
	e := entry{
		Entry: log.Entry{Keep: a.entry.Keep, MaxStream: a.entry.MaxStream, MaxMemory: a.entry.MaxMemory, Empty: true},
		about: about{Owner: a.entry.Owner, Of: a.entry.ID, Cancelled: cancelled},
	}
	e.ID, e.Key = nameOf(a.o.Secret, e.Owner, nameOpen, id)
	return claimEmpty(ctx, a.o.Store, e)
}

// claimEmpty makes a log for e, which has no run, and returns its writer, nil if there is no log.
func claimEmpty(ctx context.Context, s log.Store, e entry) log.Writer {
	_, w, _ := e.claim(ctx, s, log.Run{ReadersChanged: func(int) {}, Cancel: func(log.Reason) {}})
	return w
}

// The kinds of names of a response.
const (
	nameOpen      = "response"
	nameCancelled = "cancelled response"
)

// nameOf returns the id and the key of the log that makes a response's id another name of a stream
// of owner. No client can know them.
func nameOf(secret []byte, owner log.Digest, kind, id string) (string, log.Digest) {
	d := hash(secret, [][]string{{string(owner[:])}, {kind, id}})
	return log.DerivedID(d), d
}

// mayAskInBody reports whether r, a POST whose header asks for no log, may ask for one in its body
// (rewrite.AsksForBackground).
func mayAskInBody(o *Options, r *http.Request) bool {
	return rewrite.IsResponsesPath(r.URL.Path) && o.Detach > 0 && len(r.Header[DetachHeader]) == 0 &&
		isJSON(head.MediaType(r.Header))
}

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
func (p *Resume) ownerOf(r *http.Request, of responseAsked) log.Digest {
	server, path := p.o.Asked(r)
	if of.cancels {
		path = strings.TrimSuffix(path, cancelSuffix)
	}
	return ownerAt(p.o, r, of.resource, server, strings.TrimSuffix(path, "/"+of.id))
}

// name returns the entry of the name of a kind that the owner's response has.
func (p *Resume) name(ctx context.Context, owner log.Digest, kind, id string) (entry, error) {
	name, _ := nameOf(p.o.Secret, owner, kind, id)
	return find(ctx, p.o.Store, name)
}

// response answers r, which asks for a response by its id, if the id is the name of a log. at and
// bad are the results of lastEvent.
func (p *Resume) response(w http.ResponseWriter, r *http.Request, of responseAsked, at position, bad bool) (answered bool, err error) {
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
		err = p.cancelResponse(w, r, name, of.id)
	case bad || at.id != "" && at.id != name.Of:
		return true, errNoEvent
	case at.id != "":
		err = follow(p.o, w, r, repeatAfter(p.o, r, e, at.n))
	default:
		err = p.responseAfter(w, r, e, of.query.Get("starting_after"))
	}
	return !errors.Is(err, errUnknown), err
}

// responseAfter answers r with the events of the stream of e after the one with the sequence_number
// in after, or with all if after is empty.
func (p *Resume) responseAfter(w http.ResponseWriter, r *http.Request, e entry, after string) error {
	if after == "" {
		return follow(p.o, w, r, repeatAfter(p.o, r, e, 0))
	}
	sequence, err := strconv.ParseInt(after, 10, 64)
	if err != nil || sequence < 0 {
		return errBadStartingAfter
	}
	n, seeker, err := seek(r.Context(), p.o.Store, e.ID, sequence)
	// A run may end without a reader, so the next reader comes before the seeker leaves.
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

// seek returns the number n of the event with the sequence_number after or, if a greater one comes
// first, of the event before that. It waits for either until the stream ends. The reader r must be
// closed, also after an error.
func seek(ctx context.Context, s log.Store, id string, after int64) (n uint64, r log.Reader, err error) {
	r, n, err = readAfter(ctx, s, id, 0)
	isLost := n > 0 // whether events before the first one with a number were deleted
	if err == nil {
		if to := lastNumberBelow(ctx, s, id, n, after); to > n {
			old := r
			r, n, err = readAfter(ctx, s, id, to)
			old.Close()
			isLost = n > to
		}
	}
	events := numberedEvents{r: r, n: n}
	for err == nil {
		var number *int64
		_, number, n, err = events.next()
		switch {
		case err != nil || number == nil:
		case isLost && *number-1 > after:
			return events.n, r, &log.GoneError{First: events.n}
		case *number == after:
			return events.n, r, nil
		case *number > after:
			return n, r, nil
		default:
			isLost = false
		}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, log.ErrBroken) {
		err = nil
	}
	return events.n, r, err
}

// cancelResponse answers a request to cancel the response with the name: with the response as
// cancelled, or as it has ended. It returns errUnknown if the run is over and has left no response.
func (p *Resume) cancelResponse(w http.ResponseWriter, r *http.Request, name entry, id string) error {
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

// ended returns the response with which the stream with the id has ended, "" if it has not ended.
// The error is errUnknown if the run is over and the stream has no such response.
func ended(ctx context.Context, s log.Store, id string) (response string, err error) {
	ctx, stop := context.WithCancel(ctx)
	stop() // do not wait for the end
	r, n, err := readAfter(ctx, s, id, 0)
	if err == nil {
		if to := lastNumberBelow(ctx, s, id, n, math.MaxInt64); to > n {
			r.Close()
			r, n, err = readAfter(ctx, s, id, to-1) // that one may be the end
		}
	}
	defer r.Close()
	for events := (numberedEvents{r: r, n: n}); err == nil; {
		var e responseEvent
		switch e, _, _, err = events.next(); e.Type {
		case "response.completed", "response.failed", "response.incomplete", "response.cancelled":
			response = string(e.Response)
		}
	}
	switch over := errors.Is(err, io.EOF) || errors.Is(err, log.ErrBroken); {
	case over && response == "":
		return "", errUnknown
	case over, errors.Is(err, ctx.Err()):
		return response, nil
	}
	return "", err
}
