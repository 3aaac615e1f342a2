// Package details asks Hermes what the tools of a chat stream were given and what they returned (contract
// section 8). Hermes says in a chat only that a tool runs, and stores the rest while it does it: the rows
// of the session that its answer names.
//
//	details.go    Options, and a Stream, which asks for the tools of one answer
//	page.go       what one answer of Hermes' says of tool calls, and which call a tool is
//	rows.go       the rows of such an answer, as they are read
//	upstreams.go  upstreams that are not asked for a while
//
// A question is asked in the client's name. It delays the event that it is about, and nothing else: by at
// most maxWait, and once in a stream, because a stream whose question has failed asks no more. One answer
// serves all tools that it has. A row that may be another call's is worse than none: see page.find.
package details

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/hermes-sidecar/hermes-sidecar/internal/behalf"
	"github.com/hermes-sidecar/hermes-sidecar/internal/bounded"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// Bounds of asking.
const (
	// maxWait is how long an event may wait for an answer. Hermes takes 3 to 30 ms.
	maxWait = 300 * time.Millisecond
	// storesWithin is how long after the event Hermes 0.18 to 0.22 may store what it is about.
	storesWithin = 30 * time.Millisecond
	// maxLacking is how many answers in a row may lack the call that was asked for, before a stream asks no
	// more: such a Hermes stores calls later.
	maxLacking = 3
	// maxRows is the number of rows that Hermes is asked for. Versions that do not know of it send all.
	maxRows = 64
	// maxSessionID is the length in bytes of the longest id of a session that is asked for.
	maxSessionID = 256
)

// Options say whether and how a handler asks. Upstreams, Upstream, Logger and Count must be set.
type Options struct {
	// Results says that results are asked for as well, and not only arguments.
	Results   bool
	Upstreams *Upstreams
	// Upstream names the upstream that answers a request.
	Upstream func(*http.Request) string
	Logger   *zap.Logger
	// Count counts a question by its outcome.
	Count func(Outcome)
}

// Outcome is what became of a question.
type Outcome string

// The outcomes of questions.
const (
	Answered   Outcome = "answered"
	Late       Outcome = "late"       // no answer within 300 ms
	Lost       Outcome = "lost"       // no answer, or one that broke off
	Refused    Outcome = "refused"    // with a status of 400 to 499
	Failed     Outcome = "failed"     // with another status
	TooLarge   Outcome = "too_large"  // more than 4 MiB
	Unreadable Outcome = "unreadable" // not what Hermes answers
	Gone       Outcome = "client_gone"
)

// Outcomes lists them.
func Outcomes() []Outcome {
	return []Outcome{Answered, Late, Lost, Refused, Failed, TooLarge, Unreadable, Gone}
}

// chatPath is the end of the path of a chat. Sessions are below the same prefix.
const chatPath = "/v1/chat/completions"

// sessions matches the ids of sessions that are asked for: no other could be part of a path.
var sessions = regexp.MustCompile(`^[^\x00-\x20/\\%?#\x7f]+$`)

// Of returns what tells of the tools in the answer with the header to r, nil for nothing. The context of r
// is from behalf.Begin.
func (o *Options) Of(r *http.Request, header http.Header) rewrite.Details {
	id := header.Get(proxy.SessionIDHeader)
	prefix, isChat := strings.CutSuffix(behalf.Path(r), chatPath)
	if !isChat || len(id) > maxSessionID || !sessions.MatchString(id) || strings.Trim(id, ".") == "" {
		return nil
	}
	s := &Stream{o: o, r: r, session: id, path: prefix + "/api/sessions/" + id + "/messages"}
	if began, err := http.ParseTime(header.Get("Date")); err == nil {
		s.since = float64(began.Unix())
	}
	return s
}

// Stream knows of the tools of one answer. It is used by the goroutine that handles the request.
type Stream struct {
	o       *Options
	r       *http.Request
	session string
	path    string
	since   float64 // when the answer began, in the seconds of upstream's clock; 0 if unknown

	sender *behalf.Sender // nil before the first question
	page   page           // the last answer
	behind time.Duration  // how late the stream was after the last question
	waited time.Time      // when that was
	over   bool           // nothing more is asked
	missed int            // answers in a row that lacked the call
}

// Started implements rewrite.Details.
func (s *Stream) Started(c rewrite.ToolCall, flush func()) rewrite.ToolDetails {
	d := s.look(c, flush, func(d rewrite.ToolDetails) bool { return d.Args != nil })
	return rewrite.ToolDetails{Args: d.Args}
}

// Ended implements rewrite.Details.
func (s *Stream) Ended(c rewrite.ToolCall, flush func()) rewrite.ToolDetails {
	if !s.o.Results {
		return rewrite.ToolDetails{Args: s.page.find(c).Args}
	}
	return s.look(c, flush, func(d rewrite.ToolDetails) bool { return d.Result != nil })
}

// look returns the details of c. If that is not enough it asks, and asks once more if the answer lacks it.
func (s *Stream) look(c rewrite.ToolCall, flush func(), enough func(rewrite.ToolDetails) bool) rewrite.ToolDetails {
	d := s.page.find(c)
	until, ok := s.mayWait()
	if !ok {
		return d
	}
	for again := false; !enough(d) && !s.over && s.ask(flush, until); again = true {
		if d = s.page.find(c); enough(d) {
			s.missed = 0
			return d
		}
		s.missed++
		if s.over = s.missed == maxLacking; again || s.over || !s.pause(until) {
			return d
		}
		flush = func() {} // nothing has come since
	}
	return d
}

// mayWait returns until when the next event may wait, and whether it may. Tools that come while the stream is
// late do not make it later than maxWait, and the stream waits again once upstream has been silent for some
// time.
func (s *Stream) mayWait() (until time.Time, ok bool) {
	now := time.Now()
	s.behind = max(0, s.behind-now.Sub(s.waited))
	s.waited = now
	return now.Add(maxWait - s.behind), s.behind <= maxWait/2
}

// wait records that the stream has waited since then.
func (s *Stream) wait(since time.Time) {
	s.waited = time.Now()
	s.behind += s.waited.Sub(since)
}

// pause waits before the same is asked again: Hermes may store a call, or its result, just after it has sent
// the event. It reports whether there is time left for that.
func (s *Stream) pause(until time.Time) bool {
	if time.Until(until) < 2*storesWithin {
		return false
	}
	defer s.wait(time.Now())
	select {
	case <-time.After(storesWithin):
		return true
	case <-s.r.Context().Done():
		return false
	}
}

// ask asks for the rows of the session, and reports whether they were there in time.
func (s *Stream) ask(flush func(), until time.Time) bool {
	if s.sender == nil {
		s.sender = behalf.New(s.r, s.o.Upstream)
	}
	if !s.o.Upstreams.mayAsk(s.sender.Upstream(), time.Now()) {
		s.over = true
		return false
	}
	ctx, cancel := context.WithDeadlineCause(s.r.Context(), until, errLate)
	defer cancel() // of a question that is late nobody waits for the answer
	answers := make(chan answer, 1)
	go func() { answers <- s.fetch(ctx) }()
	flush()
	a := s.await(ctx, answers)
	outcome := a.outcome(s.r.Context())
	s.o.Count(outcome)
	if s.over = outcome != Answered; !s.over {
		s.page = a.page
	}
	if outcome != Gone {
		s.note(outcome, &a)
	}
	return !s.over
}

// await returns the answer, if it comes before ctx ends. One that is there counts, although the client may
// have taken its time for what was sent before.
func (s *Stream) await(ctx context.Context, answers <-chan answer) answer {
	defer s.wait(time.Now())
	select {
	case a := <-answers:
		return a
	case <-ctx.Done():
	}
	select {
	case a := <-answers:
		return a
	default:
		return answer{err: context.Cause(ctx)}
	}
}

// note records what became of a question, and logs once that an upstream is not asked for a while.
func (s *Stream) note(outcome Outcome, a *answer) {
	upstream := s.sender.Upstream()
	if !s.o.Upstreams.note(upstream, outcome, time.Now()) {
		return
	}
	s.o.Logger.Warn("upstream does not report the arguments and results of tools; asking again in ten minutes",
		zap.String("upstream", bounded.Name(upstream)), zap.String("reason", string(outcome)), zap.Int("status", a.status),
		zap.String("remedy", a.remedy(outcome)))
}

var (
	// errLate is not upstream's fault: a reverse_proxy with passive health checks would not ask it any more.
	errLate     = fmt.Errorf("no answer in time: %w", context.Canceled)
	errTooLarge = errors.New("the answer is too large")
	errShape    = errors.New("the answer is not from Hermes")
)

// answer is an answer of Hermes'.
type answer struct {
	status int
	page   page
	err    error
}

// Query returns the query that asks for the latest rows.
func Query() string { return fmt.Sprintf("limit=%d&order=latest", maxRows) }

// fetch asks for the rows of the session.
func (s *Stream) fetch(ctx context.Context) (a answer) {
	var rows *rows
	a.status, a.err = s.sender.Get(ctx, s.path, Query(), func() io.Writer {
		rows = newRows(s.session, s.since)
		return rows
	})
	if rows.err != nil { // the reason why the transfer broke off
		a.err = rows.err
		return a
	}
	if a.err == nil && a.status == http.StatusOK {
		a.page, a.err = rows.end()
	}
	if ctx.Err() != nil { // whatever handlers make of that
		a.err = context.Cause(ctx)
	}
	return a
}

// outcome returns what became of the question of a client with the context.
func (a *answer) outcome(client context.Context) Outcome {
	switch {
	case client.Err() != nil:
		return Gone
	case errors.Is(a.err, errLate):
		return Late
	case errors.Is(a.err, errTooLarge):
		return TooLarge
	case a.status >= 400 && a.status < 500:
		return Refused
	case errors.Is(a.err, errShape):
		return Unreadable
	case a.err != nil || a.status == 0:
		return Lost
	case a.status != http.StatusOK:
		return Failed
	}
	return Answered
}

// remedy returns what the operator can do.
func (a *answer) remedy(outcome Outcome) string {
	remedies := map[int]string{
		http.StatusNotFound:     "update Hermes to 0.18 or newer, or set tool_details off",
		http.StatusUnauthorized: "allow the key of the clients to read sessions, or set tool_details off",
		http.StatusForbidden:    "allow the key of the clients to read sessions, or set tool_details off",
	}
	if outcome == TooLarge {
		return "update Hermes to 0.20 or newer, which sends less than the whole session, or set tool_details off"
	}
	return cmp.Or(remedies[a.status], "find out why Hermes does not answer GET /api/sessions/{id}/messages, or set tool_details off")
}
