package contract

// Approvals decides how the client of one stream may answer the agent's requests for
// approval (contract section 2). The stream calls it in order, and never from two
// goroutines at once.
type Approvals interface {
	// Ask says how the client may answer q, the zero Approval if it may not. The stream
	// asks only for a request with an id, and again if upstream repeats one.
	Ask(q ApprovalRequest) Approval
	// Done says that the request with the id needs no answer any more: it was answered, or
	// the tool that waited for it has ended. With an empty id this holds for all requests of
	// the stream, which is over. It returns what became of the request.
	Done(requestID string) ApprovalOutcome
}

// ApprovalOutcome is what became of a request for approval. The zero value means that it was
// approved, or that it is not known what became of it.
type ApprovalOutcome string

// The outcomes of requests that were not approved, as the member hermes_approval of a tool event has
// them (contract section 2).
const (
	ApprovalWaits   ApprovalOutcome = "waiting" // the answer has ended for a reply
	ApprovalDenied  ApprovalOutcome = "denied"
	ApprovalExpired ApprovalOutcome = "expired" // nobody answered
)

// ApprovalRequest is a request for approval as upstream sent it, secrets included.
type ApprovalRequest struct {
	RunID, RequestID     string           // of the run, and of the request in it
	Command, Description string           // what the agent wants to run, and why it asks
	Tool                 string           // the name of the tool that waits, empty if that is not certain
	Choices              []ApprovalChoice // the answers that upstream offers
	// MayReply says that an Approval with a Code is shown: the answer ends with it, and
	// Params.Split is called next. Otherwise a Code has no effect.
	MayReply bool
}

// ApprovalChoice is an answer to a request for approval, by its name in upstream's API.
type ApprovalChoice string

// Approval says what a stream tells its client about a request for approval. The zero value
// adds nothing.
type Approval struct {
	URL  string // of the page that answers, empty for none; it has no white space
	Text bool   // the text of a chat's answer also has a paragraph with the URL
	Code string // a chat's answer ends with a paragraph that asks for a reply with it; empty for none
	// DenyOnly says that a reply with Code may only deny.
	DenyOnly bool
	// NoReply says that clients are asked for replies, but this one is not. If it has no link in the
	// text either, a chat's answer has a paragraph that says that nobody can answer.
	NoReply bool
}
