// Package contract is the vocabulary of the engine: the types and words of the wire
// contract that every package below rewrite may know. It decides nothing about a stream.
// Package rewrite has the same types for its callers, and documents them.
package contract

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
)

// Bounds that streams of every kind keep to (contract section 7).
const (
	// MaxOpenTools is the number of tools of a stream that may be open at once. One more
	// completes the one that has been open longest, so that each running keeps its one
	// completed and no frame is lost.
	MaxOpenTools = 256
	// MaxOpenBytes is the number of bytes that the events may take that complete the open
	// tools. It is bounded because one delta may complete all of them.
	MaxOpenBytes = 128 << 10
	// MaxMessage is the length in bytes up to which the message of an error is kept.
	MaxMessage = 4 << 10
)

// Options are those of rewrite, with their defaults, but for Progress: see Params.
type Options struct {
	StatusLine, Cards      bool
	Imitations, Reasoning  string
	ErrorFinish            string
	ZeroUsage, EmptyAnswer string
	KeepaliveForm          string
	ParallelWindow         time.Duration
	MaxFrame               int
	Tools                  *marker.Table
}

// AutoZeroUsage reports whether the memory decides about answers with text and usage 0/0/0.
func (o *Options) AutoZeroUsage() bool {
	return o.ZeroUsage != ZeroUsageError && o.ZeroUsage != ZeroUsagePass
}

// AutoImitations reports whether imitated markers are stripped only as long as upstream is not known to
// send tool events.
func (o *Options) AutoImitations() bool {
	return o.Imitations != ImitationsStrip && o.Imitations != ImitationsKeep && o.Imitations != ImitationsTrust
}

// Progress is the form in which tool events leave.
type Progress string

// The values of the options that are words and that change what the defaults do.
const (
	ProgressEnvelope  = "envelope"
	ProgressBare      = "bare"
	ProgressUnnamed   = "unnamed"
	ProgressComment   = "comment"
	ProgressOff       = "off"
	ImitationsStrip   = "strip"
	ImitationsKeep    = "keep"
	ImitationsTrust   = "trust"
	ReasoningKeep     = "keep"
	ReasoningDrop     = "drop"
	ErrorFinishInline = "inline"
	ZeroUsageError    = "error"
	ZeroUsagePass     = "pass"
	EmptyAnswerError  = "error"
	EmptyAnswerPass   = "pass"
	KeepaliveComment  = "comment"
)

// Params are those of rewrite that the packages below it need. Progress is never empty.
type Params struct {
	Responses        bool
	RunID, SessionID string
	Progress         Progress
	ID               func() string
	Created          int64
	Usage            UsageMemory
	OnTool           func(id, name string, completed bool, source ToolSource)
	Approvals        Approvals
	Split            func(out []byte) []byte
}

// Approvals decides how the client of a stream may answer requests for approval.
type Approvals interface {
	Ask(q ApprovalRequest) Approval
	Done(requestID string) Outcome
}

// ApprovalRequest is a request for approval as upstream sent it.
type ApprovalRequest struct {
	RunID, RequestID     string
	Command, Description string
	Tool                 string
	Choices              []string
	MayReply             bool
}

// Approval says what a stream tells its client about a request for approval.
type Approval struct {
	URL      string
	Text     bool
	Code     string
	DenyOnly bool
	NoReply  bool
}

// Outcome is what became of a tool that waited for an approval; "" if it was approved, or if that is
// not known.
type Outcome string

// The outcomes, as the member hermes_approval of a tool event has them.
const (
	OutcomeWaiting Outcome = "waiting" // the answer has ended for a reply
	OutcomeDenied  Outcome = "denied"
	OutcomeExpired Outcome = "expired" // nobody answered
)

// UsageMemory remembers which models report usage.
type UsageMemory interface {
	Reported(model string) bool
	Report(model string)
	Missed(model string)
	ReportsFailures(does bool)
	EventMemory
}

// EventMemory remembers whether upstream sends tool events.
type EventMemory interface {
	SendsEvents() bool
	ShowedEvents(does bool)
}

// Summary describes a stream.
type Summary struct {
	ID, Model    string
	FinishReason string
	Code         string

	Frames, Chunks int
	Tools, Markers int
	Imitations     int
	Reasoning      int
	Unexamined     int
	Keepalives     int

	InputTokens, OutputTokens int64
	UsageReported             bool
	ZeroUsagePassed           bool
}

// The sections of the contract that a note may name.
const (
	SectionHarm      = "0"
	SectionMarkers   = "1"
	SectionTools     = "2"
	SectionEnd       = "3"
	SectionReasoning = "4"
	SectionOther     = "6"
)

// Notes explains a stream: it takes the section of the contract that a rule is in, and
// what was done, in a few words. It may be nil.
type Notes struct{ Take func(section, text string) }

// Add adds a note unless n is nil.
func (n *Notes) Add(section, text string) {
	if n != nil {
		n.Take(section, text)
	}
}

// ToolSource says why a tool counts as started or ended (contract sections 1 and 2).
type ToolSource string

const (
	SourceUpstream  = "upstream"  // a tool event that upstream sent
	SourceMarker    = "marker"    // a marker in the text; it only starts tools
	SourceImitation = "imitation" // an imitated marker that is trusted; it only starts tools
	SourceInferred  = "inferred"  // what came after the tool, such as text; it only ends tools
	SourceEnd       = "end"       // the end of the stream; it only ends tools
)

var reasons = map[ToolSource]string{
	SourceUpstream:  "upstream says so",
	SourceMarker:    "its marker is here",
	SourceImitation: "a marker that is trusted is here",
	SourceInferred:  "what comes now proves it",
	SourceEnd:       "the stream ends",
}

// Reason returns the source in words.
func (s ToolSource) Reason() string { return reasons[s] }

// The statuses of a tool event (contract section 2).
const (
	Running   = "running"
	Completed = "completed"
)

// EndedOtherwise reports whether the status of a tool event says that its tool has ended, but not as
// Completed does.
func EndedOtherwise(status string) bool { return slices.Contains(endedOtherwise, status) }

var endedOtherwise = []string{
	Interrupted, "failed", "error", "cancelled", "canceled", "denied", "rejected", "aborted", "timeout", "timed_out", "expired",
}

// Interrupted is the status of a tool of which it is not known whether it has ended.
const Interrupted = "interrupted"

// CardOutput returns the text of the output of a card whose tool has ended with the status. Open
// WebUI draws a red cross instead of a green tick only if that begins with "Error:".
func CardOutput(status string) string {
	if status == Completed {
		return Completed
	}
	return cardFails + status
}

const cardFails = "Error: "

// WaitsForApproval is the text after "Error: " of the output of a card whose tool waits for an approval
// when the answer ends.
const WaitsForApproval = "waits for approval"

// IsCardOutput reports whether CardOutput may have returned the text, which may have lost the
// beginning that says that the tool has failed.
func IsCardOutput(text string) bool {
	status := strings.TrimPrefix(text, cardFails)
	return text == Completed || status == WaitsForApproval || EndedOtherwise(status)
}

// The codes of errors (contract section 3).
const (
	CodeAborted    = "upstream_aborted"
	CodeIncomplete = "upstream_incomplete"
	CodeTimeout    = "upstream_timeout"
	CodeCrashed    = "agent_crashed"
	CodeEmpty      = "empty_answer"
	CodeAgentError = "agent_error"
	CodeShutdown   = "shutting_down"

	CodeQueueFull    = "queue_full"    // too many requests wait in line for the agent
	CodeQueueTimeout = "queue_timeout" // the request has waited in line for too long
)

var messages = map[string]string{
	CodeAborted:    "the connection to the agent was lost before its answer was complete",
	CodeIncomplete: "the agent's answer ended before it was complete",
	CodeTimeout:    "the agent was silent for too long",
	CodeCrashed:    "the agent failed before its answer was complete and gave no reason",
	CodeEmpty:      "the agent ended without an answer",
	CodeAgentError: "the agent reported an error and gave no reason",
	CodeShutdown:   "the service is shutting down, and the agent's answer is not complete; the agent may be running",

	CodeQueueFull:    "the agent is busy, and too many requests wait for it; send the request again later",
	CodeQueueTimeout: "the agent was busy for as long as the request could wait; send the request again later",
}

// Message returns what an error with the code tells the client. It names no address.
func Message(code string) string { return cmp.Or(messages[code], messages[CodeIncomplete]) }

// The messages of CodeShutdown before the agent has the request, and before it has shown a
// tool, so that sending the request again most likely does nothing twice (contract section 3).
const (
	ShutdownBeforeRun   = "the service is shutting down; send the request again"
	ShutdownBeforeTools = "the service is shutting down; the agent may be running, but has shown no tool: you can send the request again"
)

// errorType returns the type of an error with the code, as OpenAI's API has it.
func errorType(code string) string {
	if code == CodeQueueFull || code == CodeQueueTimeout {
		return "rate_limit_error"
	}
	return ErrorType
}

// ErrorType is the type of the errors that are not upstream's own.
const ErrorType = "upstream_error"

// AppendErrorObject appends the JSON object of an error with the code and the message, a JSON
// string, to dst. Error finishes and answers that are not streamed use this form.
func AppendErrorObject(dst, message []byte, code string) []byte {
	return append(AppendErrorValue(append(dst, `{"error":`...), message, code), '}')
}

// AppendErrorValue appends the value of the member error of an error object to dst.
func AppendErrorValue(dst, message []byte, code string) []byte {
	return fmt.Appendf(dst, `{"message":%s,"type":"%s","param":null,"code":"%s"}`, message, errorType(code), code)
}
