// Package ask connects the streams of a handler, which may ask for approval, to the desk, and
// the answers to upstream. It decides who is asked. It logs that a question was asked and answered,
// but not the question.
//
// A Dialog belongs to one request, and does nothing until upstream asks. The answers of its client
// go through the sender of the request, with the client's own credentials, to the handlers that
// answered the request.
package ask

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/hermes-sidecar/hermes-sidecar/desk"
	"github.com/hermes-sidecar/hermes-sidecar/internal/behalf"
	"github.com/hermes-sidecar/hermes-sidecar/internal/bounded"
	"github.com/hermes-sidecar/hermes-sidecar/internal/client"
	"github.com/hermes-sidecar/hermes-sidecar/internal/placeholder"
	"github.com/hermes-sidecar/hermes-sidecar/resume"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// Options say how clients of a handler may answer. Timeout, Desk, Logger and Upstream must be set.
type Options struct {
	Link    string        // the base URL of the pages, without a trailing slash; "" for no links
	Text    bool          // the text of the answer also has the link
	Reply   bool          // the next message of the client may answer
	By      string        // a text with placeholders that tells users of one key apart; "" for none
	Timeout time.Duration // how long a client may take
	NewID   func() string // of a ticket; nil for a random one
	Desk    *desk.Desk
	Logger  *zap.Logger
	// Upstream names the upstream that answers a request.
	Upstream func(*http.Request) string

	asked, omitted bounded.Rate // of log messages
}

// maxAskedAtOnce is how many approvals the log says at once that clients were asked for, and how
// many that they were not. After that it says one a second, unless its level is debug: upstream may
// ask as often as it likes.
const maxAskedAtOnce = 20

// logOmitted logs why the client was not asked for an approval, or not for a reply.
func (o *Options) logOmitted(why, run string) {
	if c := o.Logger.Check(o.omitted.Level(zapcore.WarnLevel, maxAskedAtOnce), why); c != nil {
		c.Write(zap.String("run_id", bounded.Name(run)))
	}
}

// Owner returns the owner of the tickets of r, and the name of the user. ok is false if By is set
// but has no value for r: other users of the key could answer.
func (o *Options) Owner(r *http.Request) (owner client.ID, by string, ok bool) {
	if o.By != "" {
		if by, ok = placeholder.Value(r, o.By); !ok {
			return owner, "", false
		}
	}
	return client.Of(r, append(behalf.Site(r), by)...), by, true
}

// Dialog asks the questions of the answer to one request. It is used by one goroutine at a time,
// except for Pending.
type Dialog struct {
	o *Options
	r *http.Request

	split *split // the answer is about to end for a reply; nil if it is not

	mu      sync.Mutex    // guards the fields below, which Pending reads
	desk    *desk.Tickets // nil until something is asked
	tickets []ticket
}

// split is a prepared split of an answer, whose rest is for a reply.
type split struct {
	*resume.Split
	done func() // makes the rest available to replies
}

// ticket is a ticket of the stream.
type ticket struct {
	*desk.Ticket
	tool  string
	since time.Time
}

// dialogKey is the key of a Dialog in the context of its request.
type dialogKey struct{}

// Begin returns the context of r, which is from behalf.Begin, with a new Dialog.
func (o *Options) Begin(r *http.Request) context.Context {
	return context.WithValue(r.Context(), dialogKey{}, &Dialog{o: o, r: r})
}

// Of returns the Dialog of a request with the context, nil for none.
func Of(ctx context.Context) *Dialog {
	s, _ := ctx.Value(dialogKey{}).(*Dialog)
	return s
}

// Ask asks the client for approval, and returns how the client may answer. It is called in the
// goroutine that handles the request.
func (s *Dialog) Ask(q rewrite.ApprovalRequest) rewrite.Approval {
	s.mu.Lock()
	defer s.mu.Unlock()
	nobody := rewrite.Approval{NoReply: s.o.Reply}
	if s.desk == nil && !s.open(q.RunID) {
		return nobody
	}
	t := s.desk.Ask(q)
	if t == nil {
		s.o.logOmitted("too many approvals are waiting, or upstream sent no id; the client was not asked", q.RunID)
		return nobody
	}
	v := t.View()
	if v.State == desk.Answered || v.State == desk.Over {
		return rewrite.Approval{} // the events of a run are read again
	}
	offer := rewrite.Approval{Text: s.o.Text, DenyOnly: !slices.Contains(v.Request.Choices, desk.Once)}
	if s.o.Link != "" {
		offer.URL = s.o.Link + "/" + t.ID()
	}
	if s.o.Reply && q.MayReply && s.hold(q.RunID, t) {
		offer.Code = t.Code()
	} else if s.o.Reply { // the text has the link, or says that nobody can answer
		offer.Text, offer.NoReply = true, true
	}
	if !slices.ContainsFunc(s.tickets, func(old ticket) bool { return old.Ticket == t }) {
		s.tickets = append(s.tickets, ticket{t, bounded.Name(q.Tool), time.Now()})
		if c := s.o.Logger.Check(s.o.asked.Level(zapcore.InfoLevel, maxAskedAtOnce), "asked for approval"); c != nil {
			c.Write(append(s.o.named(q, v.By), zap.Bool("link", offer.URL != ""), zap.Bool("reply", offer.Code != ""))...)
		}
	}
	return offer
}

// open opens the stream at the desk, and reports whether its client can be asked.
func (s *Dialog) open(run string) bool {
	owner, by, ok := s.o.Owner(s.r)
	switch {
	case !ok:
		s.o.logOmitted("the placeholder of approvals by is empty, so the client was not asked for an approval", run)
		return false
	case approvalPath(behalf.Path(s.r), run) == "":
		return false // no API of Hermes'
	}
	sender := behalf.New(s.r, s.o.Upstream)
	s.desk = s.o.Desk.Tickets(desk.Asker{
		Owner: owner, By: by, Link: s.o.Link, Timeout: s.o.Timeout, NewID: s.o.NewID,
		Send: func(ctx context.Context, q rewrite.ApprovalRequest, c rewrite.ApprovalChoice) (desk.Result, error) {
			result, err := send(ctx, sender, q, c)
			s.o.logReply(ctx, q, by, c, result, err)
			return result, err
		},
	})
	return true
}

// hold prepares to split the answer, makes t take replies, and reports whether that worked.
func (s *Dialog) hold(run string, t *desk.Ticket) bool {
	prepared := resume.NewSplit(s.r.Context(), s.o.Timeout)
	if prepared == nil {
		s.o.logOmitted("the answer cannot continue without its client while it waits for a reply; see hermes_resume and max_detached", run)
		return false
	}
	// A reply may arrive before the answer has ended.
	ready, done := context.WithCancel(context.Background())
	s.split = &split{prepared, done}
	t.Hold(func(w http.ResponseWriter, r *http.Request) error {
		select {
		case <-ready.Done():
		case <-r.Context().Done():
		}
		return prepared.Rest(w, r)
	})
	return true
}

// Split ends the answer after its client has been sent the end, and reports whether the rest goes
// on for a reply.
func (s *Dialog) Split() bool {
	if s.split == nil {
		return false
	}
	defer s.split.done()
	ok := s.split.Do()
	s.split = nil
	return ok
}

// Done records that upstream waits no more for the answer to the request requestID or, with "", to
// any request. It returns what became of the request.
func (s *Dialog) Done(requestID string) (outcome rewrite.ApprovalOutcome) {
	if s.split != nil && requestID == "" {
		s.split.Release()
		s.split.done()
		s.split = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.desk == nil {
		return ""
	}
	s.tickets = slices.DeleteFunc(s.tickets, func(t ticket) bool {
		v := t.View()
		if v.Request.RequestID == requestID {
			outcome = outcomeOf(v)
		}
		return requestID == "" || v.Request.RequestID == requestID
	})
	s.desk.Done(requestID)
	return outcome
}

// outcomeOf returns what became of a ticket for which upstream does not wait any more. If it had no
// answer, upstream has given up on it: Hermes waits as long as a ticket does by default.
func outcomeOf(v desk.View) rewrite.ApprovalOutcome {
	switch {
	case v.Answer == desk.Deny:
		return rewrite.ApprovalDenied
	case v.Answer == "" && v.State != desk.Answered:
		return rewrite.ApprovalExpired
	}
	return ""
}

// Pending is an approval that waits.
type Pending struct {
	Tool    string  `json:"tool,omitempty"`
	Seconds float64 `json:"seconds"`
}

// Pending returns the approvals that wait, the oldest first, nil for none. s may be nil.
func (s *Dialog) Pending(now time.Time) (all []Pending) {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tickets {
		if state := t.View().State; state == desk.Waiting || state == desk.Sending {
			all = append(all, Pending{t.tool, now.Sub(t.since).Seconds()})
		}
	}
	return all
}

// named returns the log fields that identify q and the user by.
func (o *Options) named(q rewrite.ApprovalRequest, by string) []zap.Field {
	fields := []zap.Field{zap.String("run_id", bounded.Name(q.RunID)), zap.String("tool", bounded.Name(q.Tool))}
	if by != "" {
		fields = append(fields, zap.String("by", bounded.Name(by)))
	}
	return fields
}

// logReply logs an answer if it came by a reply. The page logs the answers that it sends.
func (o *Options) logReply(ctx context.Context, q rewrite.ApprovalRequest, by string, c rewrite.ApprovalChoice, result desk.Result, err error) {
	if ctx.Value(replyKey{}) == nil {
		return
	}
	fields := append(o.named(q, by), zap.String("way", string(desk.Reply)), zap.String("choice", string(c)))
	switch {
	case err != nil:
		o.Logger.Warn("the agent did not accept an answer to an approval", append(fields, zap.Error(bounded.Error(err)))...)
	case result == desk.Accepted:
		o.Logger.Info("approval answered", fields...)
	}
}

// replyKey is the key in a context that marks an answer that came by a reply.
type replyKey struct{}
