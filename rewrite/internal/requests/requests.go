// Package requests knows the requests for approval that a stream has seen, and which of them wait
// (contract section 2). Streams of every kind use it.
//
// A Requests remembers at most MaxApprovals requests, by ids of at most MaxApprovalID bytes. It
// asks about a request only if that has an id, because Hermes takes an answer without an id for
// the oldest request.
package requests

import (
	"iter"
	"slices"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

// Event is the name of the event that asks, and Answered the name of the event that says that a
// request was answered, which only a run has.
const (
	Event    = "approval.request"
	Answered = "approval.responded"
)

const (
	// MaxApprovals is the number of requests of a stream that are remembered.
	MaxApprovals = 64
	// MaxApprovalID is the length in bytes of the longest id of a run or of a request.
	MaxApprovalID = 128
	// maxOffers is the number of choices of a request that are read.
	maxOffers = 8
)

// MemberOutcome is the member of the event of a tool that says what became of the request for which
// it waited.
const MemberOutcome = "hermes_approval"

// The members that the event gets. If it has one of them already, another sidecar has asked.
const (
	memberURL  = "hermes_approval_url"
	memberCode = "hermes_approval_code"
)

// Requests are the requests of a stream. All methods but Ask may be called on a nil Requests.
type Requests struct {
	by   contract.Approvals
	seen []request // in order
	over bool
}

// request is a request that was asked about.
type request struct {
	id, tool string // tool identifies the tool that waits, empty if that is not certain
	done     bool
}

// New returns the requests of a stream, nil if by is nil.
func New(by contract.Approvals) *Requests {
	if by == nil {
		return nil
	}
	return &Requests{by: by}
}

// Read returns the request that the object at v of data, the data of an Event, makes. run is the
// id of the run if the object does not name one. ok is false if the request or its run has no id,
// or one that is too long. The strings are copies.
func Read(data []byte, v jsonspan.Span, run string) (q contract.ApprovalRequest, ok bool) {
	text := func(name string) string {
		return jsonspan.Unquote(jsonspan.StringAt(data, jsonspan.MemberOf(data, v, name)))
	}
	if q.RunID = text("run_id"); q.RunID == "" {
		q.RunID = run
	}
	q.RequestID, q.Command, q.Description = text("request_id"), text("command"), text("description")
	if q.RequestID == "" || q.RunID == "" || len(q.RequestID) > MaxApprovalID || len(q.RunID) > MaxApprovalID {
		return q, false
	}
	for _, name := range choices {
		for choice := range jsonspan.Elements(data, jsonspan.MemberOf(data, v, name)) {
			if s := jsonspan.Unquote(choice.Of(data)); s != "" && len(s) <= MaxApprovalID && len(q.Choices) < maxOffers {
				q.Choices = append(q.Choices, contract.ApprovalChoice(s))
			}
		}
	}
	return q, true
}

// CannotBeShown reports whether nobody can see what would run: the command of q is no string, or has
// nothing but white space. Such a request can only be denied.
func CannotBeShown(q contract.ApprovalRequest) bool { return strings.TrimSpace(q.Command) == "" }

// OnlyDeny is the value of the choices of a request that can only be denied.
const OnlyDeny = `["deny"]`

// Choices returns where the choices are in the object at v of data, an event of a request. Those of
// a chunk, whose members another sidecar has added, are objects.
func Choices(data []byte, v jsonspan.Span) iter.Seq[jsonspan.Span] {
	return func(yield func(jsonspan.Span) bool) {
		for name, value := range jsonspan.Members(data, v) {
			is := slices.ContainsFunc(choices, func(want string) bool { return jsonspan.Spells(name.Of(data), want) }) && value.IsSet(data)
			for e := range jsonspan.Elements(data, value) {
				is = is && !e.IsObject(data)
			}
			if is && !yield(value) {
				return
			}
		}
	}
}

// choices are the names of the member with the choices: upstream's, and that in the event of another
// sidecar.
var choices = []string{"choices", "hermes_choices"}

// IsAsked reports whether another sidecar has asked about the request in the object at v of data.
func IsAsked(data []byte, v jsonspan.Span) bool {
	return jsonspan.MemberOf(data, v, memberURL).Ok() || jsonspan.MemberOf(data, v, memberCode).Ok()
}

// Members returns the members that the event of a request gets for the approval a, which may be none.
// They begin with a comma.
func Members(a contract.Approval) (members string) {
	add := func(name, value string) {
		if value != "" {
			members += `,"` + name + `":` + string(jsonspan.Quote(value))
		}
	}
	add(memberURL, a.URL)
	add(memberCode, a.Code)
	return members
}

// Ask asks how the client may answer q, for which the tool waits. first says that the stream has
// not asked about q before; otherwise q may not be answered by a reply.
func (r *Requests) Ask(q contract.ApprovalRequest, tool string) (a contract.Approval, first bool) {
	if r.over {
		return a, false
	}
	first = !slices.ContainsFunc(r.seen, func(o request) bool { return o.id == q.RequestID })
	q.MayReply = q.MayReply && first
	if a = r.by.Ask(q); !q.MayReply {
		a.Code = ""
	}
	if first {
		if len(r.seen) == MaxApprovals {
			r.seen = slices.Delete(r.seen, 0, 1)
		}
		r.seen = append(r.seen, request{id: q.RequestID, tool: tool})
	}
	return a, first
}

// Ended records that the tool has ended: all requests for which it waited are done. It returns the
// worst that became of them.
func (r *Requests) Ended(tool string) contract.ApprovalOutcome {
	if r == nil || tool == "" {
		return ""
	}
	return r.done(func(q *request) bool { return q.tool == tool })
}

// Answered records that the request with the id was answered.
func (r *Requests) Answered(id string) {
	if r != nil {
		r.done(func(q *request) bool { return q.id == id })
	}
}

// done marks the requests for which is returns true as done, and tells r.by of those that were not
// done before. It returns the worst outcome of these.
func (r *Requests) done(is func(*request) bool) (worst contract.ApprovalOutcome) {
	for i := range r.seen {
		if q := &r.seen[i]; !q.done && is(q) {
			q.done = true
			if o := r.by.Done(q.id); worst != contract.ApprovalDenied && o != "" {
				worst = o
			}
		}
	}
	return worst
}

// End records that the stream is over.
func (r *Requests) End() {
	if r != nil && !r.over {
		r.over = true
		r.by.Done("")
	}
}

// Matches reports whether label, which a tool has shown, may stand for the command: it is the
// beginning of the command, maybe cut off with dots.
func Matches(label, command string) bool {
	label = strings.TrimRight(label, ".…")
	return label != "" && strings.HasPrefix(command, label)
}
