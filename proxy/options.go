package proxy

import (
	"context"
	"net/http"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// Options configure how a Proxy repairs streams and heals histories. In the zero value all timeouts
// and keepalives are off; DefaultOptions returns the defaults of the contract.
type Options struct {
	// Rewrite are the options of the engine.
	Rewrite rewrite.Options

	Histories
	Limits

	// Announce is the value of the header field SidecarHeader in answers, the version of the
	// sidecar. Empty means that answers have no such field.
	Announce string

	// Streams is the set that open streams belong to. Nil means a set of the Proxy's own.
	Streams *Streams
	// Origins remembers what upstream says to pages of other origins. Nil means a memory of the
	// Proxy's own.
	Origins *Origins
	// Usage returns the memory of the usage that an upstream reports. Many streams use it at once, and
	// only its Reported may block. Nil means that nothing is remembered.
	Usage func(upstream string) rewrite.UsageMemory
	// Site returns the memory of whether the upstreams of the client's request r send tool events. It
	// decides about the history in r before it is known which upstream gets r. Streams update it, as
	// they do that of Usage, and only its SendsEvents may block. Nil means that histories do not
	// depend on it.
	Site func(r *http.Request) rewrite.EventMemory
	// Upstream names the upstream that answers a request, for Usage and Result. Nil means that
	// there is only one. It is called after upstream's header.
	Upstream func(*http.Request) string
	// ErrorStatus returns the HTTP status that an error of the next handler stands for, or 0 for none.
	// Nil means 0. With 502, 503 and 504, a request for chat completions is answered with an error.
	// Because the agent may be running, that answer asks the client not to send the request again,
	// unless the transport could not connect, or had no upstream to connect to, which is 503.
	ErrorStatus func(error) int
	// Observer observes requests and their answers. Nil means none.
	Observer Observer
	// Approvals offer clients ways to answer requests for approval. The zero value offers none.
	Approvals Approvals
	// Tools provides the details of the agent's tools. The zero value provides none.
	Tools Tools
	// Identity says what upstream learns of the user of a request. The zero value says nothing.
	Identity Identity
	// RunOver is called when an answer says that the run with the id is over. Nil means that answers
	// are not searched for that.
	RunOver func(r *http.Request, id string)
	// ObserveRaw says that Observer gets the bytes of streams, as upstream has sent them. Up to 64
	// KiB of a stream that is not observed yet are kept for it.
	ObserveRaw bool
	// Timeouts returns the context that the next handler gets in place of ctx, and apply, which
	// applies the write timeouts that handlers have set through that context, nil for none. apply
	// is called once the final status is known, before it is written, while no other goroutine uses
	// the inner writer. restore, if not nil, is called at the end of the answer. A nil Timeouts
	// means that there are no timeouts but those of http.ResponseController.
	Timeouts func(ctx context.Context) (_ context.Context, apply func() (restore func()))
}

// Histories configure how the histories in requests are changed (contract sections 5 and 8).
type Histories struct {
	// History says how markers in the history that a request carries are treated.
	// The zero value means HistoryHeal.
	History History
	// MaxRequest is the size in bytes above which the body of a request passes
	// untouched. Zero means DefaultMaxRequest.
	MaxRequest int64
	// Memory returns the memory of the answers to the client of r, or nil for none. It is called for chat
	// completions that name no session, unless History is HistoryKeep: records of the tools that ran
	// are added to their histories, and their answers are remembered. Nil means no records.
	Memory func(r *http.Request) rewrite.Memory
	// Results says that records show what tools returned.
	Results bool
}

// Limits are how long an exchange may take and be silent (contract section 3). Zero turns a limit off.
type Limits struct {
	// FirstByteTimeout is how long upstream may take, once the request has been read, to send the
	// first byte of its answer to a chat completion, or of the body if the answer is a stream. It
	// does not apply to a request that was read and does not ask for a stream. Zero means no limit.
	FirstByteTimeout time.Duration
	// IdleTimeout is how long upstream may send no byte at all. Before an
	// answer it applies like FirstByteTimeout. Zero means no limit.
	IdleTimeout time.Duration
	// StallTimeout is how long upstream may send no frame; comments do not
	// count, nor does its header. Before an answer it applies like
	// FirstByteTimeout. Zero means no limit.
	StallTimeout time.Duration
	// Keepalive is the silence towards the client after which a keepalive is
	// sent, after upstream's header. Zero means none.
	Keepalive time.Duration
	// DoneGrace is how long upstream may be silent after the finish chunk before the Proxy ends the
	// stream. Zero means no limit: the client then waits until upstream ends it.
	DoneGrace time.Duration
	// DrainTimeout is how long streams may go on after Streams.Shutdown, and how long the answer to
	// a request that may be for a stream may take to begin.
	DrainTimeout time.Duration
}

// Approvals are what the Proxy calls about requests for approval (contract section 2).
type Approvals struct {
	// Ask returns the Approvals for the answer to the client's request r, or nil for none. It is called
	// after upstream's header. If split is not nil, the answer may end with a request for a reply
	// (rewrite.Approval.Code). split is called between two writes, after that end has been sent to the
	// client. It turns all further bytes into a separate stream, and reports whether it could; if not,
	// upstream's request ends. A nil Ask means that no client is asked.
	Ask func(r *http.Request) (a rewrite.Approvals, split func() bool)
	// Secrets returns what the client of r was given to answer requests for approval, nil for
	// nothing. It is called for requests whose body is read. Nil means that no client is given
	// anything.
	Secrets func(r *http.Request) rewrite.Secrets
	// Reply answers the client's request r, which asks for an answer of the given form, if m, its
	// last message, answers a request for approval, or has the code of one that waits. Then it
	// reports true, r does not go to the next handler, and its error is returned. It is called for
	// chat completions whose last message says anything about an approval, whatever History is. Nil
	// means that there are no replies.
	Reply func(w http.ResponseWriter, r *http.Request, m rewrite.Reply, form rewrite.AnswerForm) (handled bool, err error)
}

// Tools are what the Proxy calls about the agent's tools (contract section 8).
type Tools struct {
	// Details returns the source of the arguments and results of the tools in the answer to the client's
	// request r, or nil for none. header is upstream's. It is called for streams of chat completions, in
	// the goroutine that handles r. The events of the answer wait for it, after everything before them
	// has been sent. A nil Details means no arguments and results.
	Details func(r *http.Request, header http.Header) rewrite.Details
}

// History is a way to treat markers in the history that a request carries
// (contract section 5).
type History string

// The values of History. The zero value means HistoryHeal.
const (
	// HistoryHeal removes them; see rewrite.Heal. The default.
	HistoryHeal History = "heal"
	// HistoryKeep leaves the request as it is.
	HistoryKeep History = "keep"
)

// HistoryValues lists the allowed values of History, the default first.
func HistoryValues() []History { return []History{HistoryHeal, HistoryKeep} }

// DefaultMaxRequest is the size in bytes above which a request passes untouched
// (contract section 5).
const DefaultMaxRequest = 10_000_000

// DefaultOptions returns the defaults of the contract (section 3).
func DefaultOptions() Options {
	return Options{
		Histories: Histories{MaxRequest: DefaultMaxRequest},
		Limits: Limits{
			IdleTimeout:  15 * time.Minute,
			Keepalive:    10 * time.Second,
			DoneGrace:    5 * time.Second,
			DrainTimeout: 10 * time.Second,
		},
	}
}
