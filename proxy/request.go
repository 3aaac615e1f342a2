package proxy

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
	"github.com/hermes-sidecar/hermes-sidecar/internal/reqbody"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// ProgressHeader is the request header that overrides the form of tool events
// for one request (contract section 2).
const ProgressHeader = "X-Hermes-Tool-Progress"

// Request is a client's request from its arrival on. Proxy.Read reads it, and Serve
// answers it. In between, Send may begin its answer.
type Request struct {
	o       *Options
	rooms   *sync.Pool // those of the Proxy
	r       *http.Request
	up      *http.Request         // upstream's
	url     url.URL               // of the request, before a handler changes it
	held    bool                  // the request may wait and be served again
	waiting rewrite.WaitingFrames // writes the frames of an answer that has begun; set if held
	ctx     context.Context
	cancel  context.CancelCauseFunc // ends upstream's request
	since   time.Time               // when the request came
	chat    bool                    // it is one for chat completions
	form    rewrite.AnswerForm
	muted   bool // it mutes the answer, which may be empty by intent
	body    reqbody.Body
	memory  rewrite.Memory // of the client's answers, nil for none
	turn    rewrite.Turn   // that of the answer; of the rest of one, after a reply, without a question

	mu       sync.Mutex
	client   client
	sent     time.Duration  // the age of the last byte to the client
	front    http.Header    // of handlers in front, once the answer has begun; nil before
	observer AnswerObserver // nil as long as it does not observe the answer
	x        *exchange      // under way or over, nil for none
}

// Read reads the body of the client's request r as far as necessary, and heals the history that it
// carries (section 5 of the contract). The body of r may be replaced by one that gives the same
// bytes. It returns nil, and the error of Approvals.Reply, if that has answered r.
//
// If ended is not nil, r may wait before it goes on: its body is read if that shows what it asks for
// (MayBegin), and kept, so that Serve may be called again (MayRepeat). If the client still sends the
// body when Read returns (Pending), upstream gets its end after ended has returned nil. Otherwise it
// does not get it, and Serve ends the answer as if the next handler had returned the error. ended is
// called in the goroutine that reads the body.
//
// Close must be called in the end.
func (p *Proxy) Read(w http.ResponseWriter, r *http.Request, ended func() error) (*Request, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	q := &Request{
		o: &p.o, rooms: &p.rooms, r: r, up: upstreamRequest(ctx, r), url: *r.URL, held: ended != nil,
		ctx: ctx, cancel: cancel, since: time.Now(), chat: rewrite.IsChatPath(r.URL.Path), client: client{w: w, cancel: cancel},
	}
	p.o.Streams.add(q)
	goesOn := false
	defer func() {
		if !goesOn { // maybe because of a panic
			q.Close()
		}
	}()
	if q.held {
		params := q.params()
		q.waiting = rewrite.NewWaitingFrames(&p.o.Rewrite, &params)
	}
	healed := q.read(ended)
	answered, err := q.reply(healed)
	if answered {
		return nil, err
	}
	if !rewrite.IsRunPath(r.URL.Path) {
		healed.Ignored = 0
	}
	if (healed.Markers > 0 || healed.Recalled() > 0 || healed.Ignored != 0) && p.o.Observer != nil {
		p.o.Observer.Request(r, healed)
	}
	// Contract section 3, second rule of "false stop".
	q.muted = healed.Diagnostic && q.up.Header.Get(SessionIDHeader) != ""
	q.form, q.turn = healed.Form, healed.Turn
	goesOn = true
	return q, nil
}

// Close ends the request, after which nothing may be called.
func (q *Request) Close() {
	q.o.Streams.remove(q)
	q.cancel(nil)
}

// read reads the body.
func (q *Request) read(ended func() error) rewrite.Healed {
	o, r := q.o, q.r
	// No lock is held and no deadline runs while the client sends its request, which may take its
	// time. If the body goes on to upstream while it is read, upstream waits for the client and is
	// not silent: the body is timed if there is a deadline that this moves.
	plan := reqbody.Plan{
		Heal: mayHeal(o, r, q.held), Keep: o.History == HistoryKeep, Limit: o.MaxRequest, Tools: o.Rewrite.Tools,
		Timed: q.chat && max(o.FirstByteTimeout, o.IdleTimeout, o.StallTimeout) > 0,
		Again: q.held, MarkersStay: o.markersStay(r),
		Edit: o.Identity.tell(r, q.up),
	}
	// A session that the request or Identity names has a history of its own (contract section 8).
	if q.chat && o.Memory != nil && o.History != HistoryKeep && q.up.Header.Get(SessionIDHeader) == "" {
		q.memory = o.Memory(r)
		plan.Memory, plan.Results = q.memory, o.Results
	}
	if o.Approvals.Secrets != nil {
		plan.Secrets = func() rewrite.Secrets { return o.Approvals.Secrets(r) }
	}
	if ended != nil {
		plan.Ended = func() error { return q.bodyEnded(ended) }
	}
	return q.body.Prepare(r, q.up, plan)
}

// errNotEnded is what upstream gets in place of the end of a body. It is not upstream's fault (see
// cancellations).
var errNotEnded = fmt.Errorf("the request was stopped before its body ended: %w", context.Canceled)

// bodyEnded is called when the client has sent the end of the body that upstream is reading.
func (q *Request) bodyEnded(ended func() error) error {
	err := ended()
	if err == nil {
		return nil
	}
	q.mu.Lock()
	x := q.x
	q.mu.Unlock()
	x.refuse(err)
	q.cancel(errNotEnded)
	return errNotEnded
}

// reply answers the request if its last message is a reply to a request for approval, or has the
// code of one that waits. It reports whether it has: then the request does not go to the next
// handler.
func (q *Request) reply(m rewrite.Healed) (answered bool, err error) {
	if m.Reply.Code == "" || q.o.Approvals.Reply == nil || !q.chat {
		return false, nil
	}
	h := q.client.w.Header()
	before := h.Clone()
	q.o.announce(h)
	answered, err = q.o.Approvals.Reply(q.client.w, q.r, m.Reply, m.Form)
	if !answered {
		head.Copy(h, before)
	}
	return answered, err
}

// Options returns the options of the Proxy, which must not be changed.
func (q *Request) Options() *Options { return q.o }

// Context returns the context of the request. It ends when the client has left, or cannot be written
// to.
func (q *Request) Context() context.Context { return q.ctx }

// Pending reports whether the client is still sending the body.
func (q *Request) Pending() bool { return q.body.Pending() }

// MayRepeat reports whether Serve may be called again, with a request like the last one.
func (q *Request) MayRepeat() bool { return q.held && q.ctx.Err() == nil && q.body.MayRewind() }

// age returns the time since the request came.
func (q *Request) age() time.Duration { return time.Since(q.since) }

// upstream names the upstream that answers. Only the handler's goroutine may ask: it
// looks at values that handlers have set.
func (q *Request) upstream() string { return q.o.Upstream(q.r) }

// gone reports whether the client has left.
func (q *Request) gone() bool { return q.client.err != nil || q.r.Context().Err() != nil }

// params returns the parameters of the answer's stream that the request's path and header give.
func (q *Request) params() rewrite.Params {
	p := rewrite.Params{Active: q.chat, Progress: rewrite.ProgressOf(q.r.Header.Get(ProgressHeader)), Created: q.since.Unix()}
	if path := q.r.URL.Path; !q.chat {
		p.Responses, p.RunID, p.SessionID = rewrite.IsResponsesPath(path), rewrite.RunOfPath(path), rewrite.SessionOfPath(path)
	}
	return p
}

// errPanicked is the cause with which upstream's request ends after code that is not ours
// has panicked under the lock. It is no fault of upstream's (see cancellations).
var errPanicked = fmt.Errorf("the writer of the answer panicked: %w", context.Canceled)

// unlock releases the lock in the handler's goroutine. It is deferred wherever code that is not
// ours is called under the lock: a panic of that code goes on, and the inner writer is not used
// again.
func (q *Request) unlock() {
	if v := recover(); v != nil {
		q.client.fail(errPanicked)
		q.mu.Unlock()
		panic(v) // keeps the stack
	}
	q.mu.Unlock()
}

// tick ends the request if its time in a drain is over.
func (q *Request) tick() {
	q.mu.Lock()
	x := q.x
	q.mu.Unlock()
	if x != nil {
		x.tick()
	}
}

// upstreamRequest returns r as the next handler gets it: with ctx, and asking
// for a body that is not compressed. The client's own header stays as it is,
// because handlers before this one look at it (Caddy's encode, handle_errors).
func upstreamRequest(ctx context.Context, r *http.Request) *http.Request {
	up := r.WithContext(ctx)
	if up.Header = maps.Clone(r.Header); up.Header == nil {
		up.Header = make(http.Header)
	}
	up.Header["Accept-Encoding"] = []string{"identity"}
	// With GetBody, net/http would repeat a body that it has written, and the agent would run
	// twice: over HTTP/1 with an Idempotency-Key, which a later handler may still add, over HTTP/2
	// without one (contract section 7). Requests from a server have no GetBody, so nothing is lost.
	up.GetBody = nil
	return up
}

// next returns the request that the next handler gets, with ctx. The next one equals it, whatever
// handlers do to this one.
func (q *Request) next(ctx context.Context) *http.Request {
	up := q.up.WithContext(ctx)
	if q.held {
		up.Header = q.up.Header.Clone()
		*q.r.URL = q.url // which handlers change in place
		q.body.Rewind(up)
	}
	return up
}

// mayHeal reports whether the body of r may carry a history, and may be read before r goes on,
// judging by method, length and header. held says that r may have to wait, so that its body is read
// to know what it asks for.
func mayHeal(o *Options, r *http.Request, held bool) bool {
	if o.History == HistoryKeep && !o.readsReplies(r) && !o.Identity.reads(r) && !held || r.Method != http.MethodPost || head.IsEncoded(r.Header) {
		return false
	}
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 || r.ContentLength > o.MaxRequest {
		return false
	}
	// The client says that the body is to go on while it is read (the HTTP
	// working group's draft "Incremental HTTP Messages"; Caddy also heeds it).
	if strings.HasPrefix(r.Header.Get("Incremental"), "?1") {
		return false
	}
	if rewrite.BeginsRun(r.URL.Path) { // Hermes asks for no type
		return !strings.HasPrefix(head.MediaType(r.Header), "multipart/")
	}
	return head.IsJSON(r.Header)
}

// markersStay returns a function that reports whether what looks like a marker stays in the history
// that r carries (contract section 5), nil for one that returns false.
func (o *Options) markersStay(r *http.Request) func() bool {
	if i := o.Rewrite.Imitations; o.Site == nil || i != "" && i != rewrite.ImitationsAuto {
		return nil
	}
	return func() bool { return o.Site(r).SendsEvents() }
}

// readsReplies reports whether the body of r is read for a reply, whatever the option History says.
func (o *Options) readsReplies(r *http.Request) bool {
	return o.Approvals.Reply != nil && rewrite.IsChatPath(r.URL.Path)
}
