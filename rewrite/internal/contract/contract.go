// Package contract is the vocabulary of the engine: the types and words of the wire contract that
// every package of it may know. It decides nothing about a stream. Package rewrite gives its callers
// those types that they need.
//
//	options.go    Options and their words
//	params.go     Params, and what a stream tells its caller: tool events, steps, a summary
//	approvals.go  Approvals: who may answer a request for approval, and how
//	tools.go      Details: what tools were given and returned
//	contract.go   bounds, sections, statuses and errors
package contract

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
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

// The sections of the contract that a note may name.
const (
	SectionHarm      = "0"
	SectionMarkers   = "1"
	SectionTools     = "2"
	SectionEnd       = "3"
	SectionReasoning = "4"
	SectionOther     = "6"
	SectionDetails   = "8"
)

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

// ShownEnd ends the arguments that a card shows if they are the tool's own. It is seen nowhere, and says that
// the sidecar has written them.
const ShownEnd = " "

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

// CardStatus returns the status of a tool from text, the output of its card, for which IsCardOutput is
// true.
func CardStatus(text string) string { return strings.TrimPrefix(text, cardFails) }

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
