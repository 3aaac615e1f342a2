package asking

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/approval"
	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
	"github.com/hermes-sidecar/hermes-sidecar/internal/panics"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/resume/resumecaddy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// Next is the handler that answers the requests of a handler.
type Next = func(w http.ResponseWriter, r *http.Request) error

// Bounds of an answer on its way to upstream.
const (
	// maxTries is how often an answer is sent as long as other upstreams than the one that asked
	// say that they do not know the run, which changes nothing there.
	maxTries = 10
	// maxReport is how many bytes are read of what upstream says to an answer. Hermes' has 200.
	maxReport = 16 << 10
)

// runIDs are the ids of runs that may be part of a path.
var runIDs = regexp.MustCompile(`^[A-Za-z0-9_-]{1,256}$`)

// approvalPath returns the path that takes answers for a run, "" if there is none: path is that of
// the request whose stream asks.
func approvalPath(path, run string) string {
	base, ok := strings.CutSuffix(path, "/chat/completions")
	if id := rewrite.RunOfPath(path); id != "" {
		base, ok = strings.CutSuffix(path, "/runs/"+id+"/events")
	}
	if id := rewrite.SessionOfPath(path); id != "" {
		base, ok = strings.CutSuffix(path, "/api/sessions/"+id+"/chat/stream")
		base += "/v1"
	}
	if !ok || !runIDs.MatchString(run) {
		return ""
	}
	return base + "/runs/" + run + "/approval"
}

// sender sends answers to the upstream of a stream, in the name of the client that is asked.
type sender struct {
	r        *http.Request // the client's as it was, with everything of its own
	next     Next
	upstream string // that asks; "" if it has no name
	name     func(*http.Request) string
}

// newSender returns a sender for the request r, whose stream upstream sends now. It is called in
// the goroutine that handles r.
func newSender(r *http.Request, next Next, name func(*http.Request) string) *sender {
	own := r.Clone(context.WithoutCancel(r.Context()))
	own.Body, own.ContentLength = http.NoBody, 0
	for _, field := range ofTheBody {
		own.Header.Del(field)
	}
	for _, field := range []string{proxy.SessionKeyHeader, proxy.SessionIDHeader} {
		head.Withhold(own.Header, field)
	}
	return &sender{resumecaddy.OwnRequest(own, new(report)), next, name(r), name}
}

// ofTheBody are the header fields of a client's request that say something about its body or about
// the answer that it wants. All else may be a credential.
var ofTheBody = []string{
	"Accept", "Accept-Encoding", "Content-Digest", "Content-Encoding", "Content-Length", "Content-Md5", "Content-Type",
	"Digest", "Expect", "Idempotency-Key", "If-Match", "If-Modified-Since", "If-None-Match", "If-Range", "If-Unmodified-Since",
	"Incremental", "Last-Event-Id", "Prefer", "Range", "Repr-Digest", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
	"X-Hermes-Detach", "X-Stainless-Retry-Count",
}

// send answers q.
func (s *sender) send(ctx context.Context, q approval.Request, c approval.Choice) (approval.Result, error) {
	path := approvalPath(s.r.URL.Path, q.RunID)
	if path == "" {
		return approval.Refused, fmt.Errorf("upstream takes no answer for the run of %q", s.r.URL.Path)
	}
	body, err := json.Marshal(map[string]string{"choice": string(c), "request_id": q.ID})
	if err != nil {
		return approval.Refused, err
	}
	for range maxTries {
		said, upstream, err := s.try(ctx, path, body)
		if err != nil {
			return approval.Refused, err
		}
		if said.status == http.StatusNotFound && upstream != s.upstream {
			continue
		}
		return said.result()
	}
	return approval.Refused, fmt.Errorf("the upstream that asks was not reached in %d tries: let the same client reach the same upstream, such as by lb_policy client_ip_hash", maxTries)
}

// try sends a body to upstream, and returns what it says and the name of the one that does.
func (s *sender) try(ctx context.Context, path string, body []byte) (said *report, upstream string, err error) {
	base, cancel := context.WithCancelCause(s.r.Context())
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	r := s.r.Clone(base)
	r.Method, r.Body, r.ContentLength = http.MethodPost, io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.URL.Path, r.URL.RawPath = path, ""
	r.RequestURI = (&url.URL{Path: path, RawQuery: r.URL.RawQuery}).RequestURI()
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "identity", "Content-Length": fmt.Sprint(len(body)),
	} {
		r.Header.Set(name, value)
	}
	said = new(report)
	r = resumecaddy.OwnRequest(r, said)
	if v := panics.Catch(func() { err = s.next(said, r) }); v != nil {
		err = fmt.Errorf("the handler of the answer panicked: %v", v)
	}
	if ctx.Err() != nil && err == nil && said.status == 0 {
		err = context.Cause(ctx)
	}
	return said, s.name(r), err
}

// report is what upstream says to an answer: an http.ResponseWriter.
type report struct {
	header http.Header
	status int
	body   []byte
}

func (p *report) Header() http.Header {
	if p.header == nil {
		p.header = make(http.Header)
	}
	return p.header
}

func (p *report) WriteHeader(status int) {
	if p.status == 0 && status >= 200 {
		p.status = status
	}
}

func (p *report) Write(b []byte) (int, error) {
	p.WriteHeader(http.StatusOK)
	p.body = append(p.body, b[:min(len(b), maxReport-len(p.body))]...)
	return len(b), nil
}

// Flush does nothing: nobody waits for a part.
func (p *report) Flush() {}

// result returns what became of the answer.
func (p *report) result() (approval.Result, error) {
	var said struct {
		Error struct{ Code string }
	}
	_ = json.Unmarshal(p.body, &said) // what is no JSON has no code
	switch code := said.Error.Code; {
	case p.status == http.StatusOK:
		return approval.Accepted, nil
	case p.status == http.StatusConflict && code == "approval_not_pending":
		return approval.AlreadyAnswered, nil
	case p.status == http.StatusConflict, p.status == http.StatusNotFound:
		return approval.TooLate, nil
	}
	return approval.Refused, fmt.Errorf("upstream refused the answer with the status %d", p.status)
}
