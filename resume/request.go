package resume

import (
	"bytes"
	"cmp"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
	"github.com/hermes-sidecar/hermes-sidecar/internal/reqbody"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// position is a place in a stream: after event n. If id is empty, there is no position.
type position struct {
	id string
	n  uint64
}

// lastEvent returns the position that the Last-Event-ID in h names, if it has the id of a stream of
// this package. bad says that it names no event of that stream, or that there are several values.
func lastEvent(h http.Header) (at position, bad bool) {
	values := h[LastEventHeader]
	for _, v := range values {
		id, number, ok := strings.Cut(v, "/")
		if !log.IsID(id) {
			continue
		}
		n, err := strconv.ParseUint(number, 10, 64)
		at, bad = position{id, n}, !ok || err != nil || len(values) > 1
	}
	return at, bad
}

// named splits path into the path of an answer and the id of a stream, if it ends with an id.
func named(path string) (resource, id string, ok bool) {
	resource, id = path[:max(strings.LastIndexByte(path, '/'), 0)], path[strings.LastIndexByte(path, '/')+1:]
	return resource, id, len(id) < len(path) && log.IsID(id)
}

// terms are the terms on which a request shares and outlives its answer: the keys, and for how long.
type terms struct {
	key    string        // its own, "" for none
	values []string      // those of Options.Key, nil for none
	detach time.Duration // how long its run may go on without a client
	// detachRest is detach after a split, if longer: the short time of an SDK is for repeats.
	detachRest time.Duration
	keep       time.Duration // how long its answer is kept
	sdk        bool          // an SDK has sent it
	again      bool          // the SDK has sent it before
	// background says that its body asks for an answer in the background.
	background bool
	// wants says that an answer is useful without the client.
	wants bool
}

// termsOf returns the terms of r, a POST, and whether its header asks for a log, or the problem with
// that header.
func termsOf(o *Options, r *http.Request) (t terms, wantsLog bool, wrong error) {
	t.detach, t.keep = o.Detach, o.Keep
	if t.sdk, t.again = ofSDK(r.Header); t.sdk {
		t.sdk = head.IsJSON(r.Header)
	}
	switch keys := r.Header[KeyHeader]; len(keys) {
	case 0:
	case 1:
		t.key = keys[0]
	default:
		return t, false, errTwoKeys
	}
	always := t.key == "" && t.configure(o, r)
	hasKey := t.key != "" || t.values != nil
	if detach := r.Header[DetachHeader]; len(detach) > 0 {
		d, err := time.ParseDuration(detach[0])
		if err != nil || d < 0 || len(detach) > 1 {
			return t, false, errBadDetach
		}
		t.detach = min(d, o.Detach)
		return t, hasKey || t.detach > 0, nil
	}
	switch {
	case hasKey, always:
		return t, true, nil
	case t.sdk:
		t.detach, t.keep = min(sdkDetach, o.Detach), min(sdkKeep, o.Keep)
		t.detachRest = o.Detach
		return t, true, nil
	}
	return t, false, nil
}

// bodyMayWantLog reports whether r, a POST whose header asks for no log, may ask for one in its body
// (rewrite.AsksForBackground).
func bodyMayWantLog(o *Options, r *http.Request) bool {
	return rewrite.IsResponsesPath(r.URL.Path) && o.Detach > 0 && len(r.Header[DetachHeader]) == 0 &&
		head.IsJSON(r.Header)
}

// read reads the body of r, a POST, and completes t with what it says. wantsLog says that the header
// asks for a log. read returns false if r passes: neither the header nor the body asks for a log, or the
// body is too large or cannot be read.
func (t *terms) read(o *Options, r *http.Request, wantsLog bool) (body []byte, ok bool) {
	if body, ok = readBody(r, o.MaxRequest()); !ok {
		return nil, false
	}
	t.background = rewrite.IsResponsesPath(r.URL.Path) && rewrite.AsksForBackground(body)
	switch {
	case t.background && o.Detach > 0 && len(r.Header[DetachHeader]) == 0:
		t.detach, t.keep = o.Detach, o.Keep
	case !wantsLog:
		giveBody(r, body)
		return nil, false
	}
	t.wants = t.sdk || asksForStream(r, body)
	return body, true
}

// readBody reads the body of r, which net/http closes when the client's handler returns. It returns
// false if the body is larger than limit, or cannot be read: then the body of r still gives the
// same bytes and the same error.
func readBody(r *http.Request, limit int64) ([]byte, bool) {
	r.GetBody = nil // or net/http would send a request again that it has written (contract section 7)
	if r.Body == nil || r.Body == http.NoBody {
		return nil, true
	}
	if r.ContentLength > limit {
		return nil, false
	}
	body, err := reqbody.Read(r.Body, r.ContentLength, limit)
	if err == io.EOF && int64(len(body)) <= limit { //nolint:errorlint // the end is that very value
		return body, true
	}
	rest := io.Reader(r.Body)
	if err != nil { // net/http's body would not fail again, but end
		rest = failingReader{err}
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), rest), r.Body}
	return nil, false
}

// failingReader always fails with err.
type failingReader struct{ err error }

func (f failingReader) Read([]byte) (int, error) { return 0, f.err }

// giveBody gives r its body b again, which readBody has read. If an empty body of unknown length
// became http.NoBody, net/http would send a request again that it has written (contract section 7).
func giveBody(r *http.Request, b []byte) {
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = reqbody.Again(b)
	}
}

// asksForStream reports whether a request says that it wants an event stream. If the client leaves
// before there is an answer, the run goes on only for such a request or an SDK.
func asksForStream(r *http.Request, body []byte) bool {
	if strings.Contains(r.Header.Get("Accept"), "text/event-stream") || rewrite.SessionOfPath(r.URL.Path) != "" {
		return true
	}
	return rewrite.AnswerFormOf(body) == rewrite.AnswerStream
}

// ReadStreamRequest reads the body of r, a POST, and reports whether r says that it wants an event
// stream. If not, or if the body is larger than limit, the body of r still gives the same bytes. A
// limit of zero means proxy.DefaultMaxRequest.
func ReadStreamRequest(r *http.Request, limit int64) ([]byte, bool) {
	if head.MediaType(r.Header) != "" && !head.IsJSON(r.Header) {
		return nil, false
	}
	body, ok := readBody(r, cmp.Or(limit, proxy.DefaultMaxRequest))
	if ok && !asksForStream(r, body) {
		giveBody(r, body)
		return nil, false
	}
	return body, ok
}

// apiOf returns the API that a POST to path uses, "" for none.
func apiOf(path string) API {
	switch {
	case rewrite.IsChatPath(path):
		return APIChat
	case rewrite.IsResponsesPath(path):
		return APIResponses
	case rewrite.SessionOfPath(path) != "":
		return APISessions
	case rewrite.IsRunsPath(path):
		return APIRuns
	}
	return ""
}

// configure sets the key and the time without a client that o gives r, a POST without a key of its
// own. It reports whether r asks for a log even without a key.
func (t *terms) configure(o *Options, r *http.Request) bool {
	always := (o.Always || len(o.AlwaysFor) > 0) && len(r.Header[DetachHeader]) == 0
	if o.Key == nil && !always || !head.IsJSON(r.Header) {
		return false
	}
	if o.Key != nil {
		t.values = o.Key(r)
	}
	d, listed := o.AlwaysFor[apiOf(r.URL.Path)]
	if !listed {
		return o.Always
	}
	t.detach = min(d, o.Detach)
	return t.detach > 0
}

// OpenAI's SDKs repeat a request whose connection failed, and send the number of repeats in
// retryHeader. So their requests need no key: a repeat joins the run of the first, also if its
// answer is no event stream. A first request never joins: a user who asks the same again wants
// another answer.

// retryHeader is how many times an SDK of OpenAI's has sent the same request before.
const retryHeader = "X-Stainless-Retry-Count"

// Times for a request of an SDK that asks for nothing itself.
const (
	// sdkDetach is how long its run goes on without a client: SDKs repeat within 8 seconds.
	sdkDetach = 10 * time.Second
	// sdkKeep is how long its answer is kept. No repeat of it is later: a later one may be the
	// repeat of a request that was never here.
	sdkKeep = time.Minute
)

// ofSDK reports whether h is the header of an SDK's request, and whether the SDK has sent the
// request before.
func ofSDK(h http.Header) (sdk, again bool) {
	values := h[retryHeader]
	if len(values) != 1 {
		return false, false
	}
	n, err := strconv.ParseUint(values[0], 10, 32)
	return err == nil, n > 0
}
