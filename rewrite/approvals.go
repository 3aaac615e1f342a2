package rewrite

import (
	"fmt"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chat"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
)

// Approvals decides how the client of one stream may answer the agent's requests for approval
// (contract section 2).
type Approvals = contract.Approvals

// ApprovalRequest is a request for approval as upstream sent it, secrets included.
type ApprovalRequest = contract.ApprovalRequest

// ApprovalChoice is an answer to a request for approval, by its name in upstream's API.
type ApprovalChoice = contract.ApprovalChoice

// Approval says what a stream tells its client about a request for approval. The zero value
// adds nothing.
type Approval = contract.Approval

// ApprovalOutcome is what became of a request for approval. The zero value means that it was
// approved, or that it is not known what became of it.
type ApprovalOutcome = contract.ApprovalOutcome

// The outcomes of requests that were not approved, as tool events have them (contract section 2).
const (
	ApprovalDenied  ApprovalOutcome = contract.ApprovalDenied  // "denied"
	ApprovalExpired ApprovalOutcome = contract.ApprovalExpired // "expired": nobody answered
)

// Advice is the answer to a message that has the code of an approval and is no reply: a chat
// completion that says what to write (contract section 5). It leaves histories as the paragraph
// does that asks for the approval.
type Advice struct {
	ID      string // of the completion
	Created int64  // in seconds since 1970
	Code    string
}

// Stream returns the answer as a stream.
func (a Advice) Stream() []byte {
	return chat.Answer(&contract.Params{ID: func() string { return a.ID }, Created: a.Created}, marker.AdviceLine(a.Code, ""))
}

// Whole returns the answer to a request that asks for no stream. A reply has to: its answer is one.
func (a Advice) Whole() []byte {
	return fmt.Appendf(nil, `{"id":%s,"object":"chat.completion","created":%d,"model":"hermes-agent",`+
		`"choices":[{"index":0,"message":{"role":"assistant","content":%s},"finish_reason":"stop"}],`+
		`"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}`+"\n",
		jsonspan.Quote(a.ID), a.Created, jsonspan.Quote(marker.AdviceLine(a.Code, ", in a request that asks for a stream")))
}
