package rewrite

import (
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/tooltext"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/whole"
)

// Params are the particulars of one stream. The zero value is valid.
type Params = contract.Params

// UsageMemory remembers which models of an upstream have reported usage, and whether the upstream
// reports its failures itself and sends tool events (contract section 3, third rule of "false
// stop").
type UsageMemory = contract.UsageMemory

// EventMemory remembers whether an upstream sends tool events (contract section 1).
type EventMemory = contract.EventMemory

// Memory remembers which tools ran during the answers to one client (contract section 8). ToolRun has
// the details of such a tool, Turn a question and its answer, and Text stands for a text.
type (
	Memory  = contract.Memory
	ToolRun = contract.ToolRun
	Turn    = contract.Turn
	Text    = contract.Text
)

// TextOf returns the Text of a text.
func TextOf(text string) Text {
	var sum contract.TextSum
	sum.Add(jsonspan.Inside(jsonspan.Quote(text)))
	return sum.Text()
}

// ToolEvent says that a tool has started or ended.
type ToolEvent = contract.ToolEvent

// ToolSource says why a tool counts as started or ended (contract sections 1 and 2).
type ToolSource = contract.ToolSource

// Details tells what the tools of a stream were given and what they returned (contract section 8).
type Details = contract.Details

// ToolCall identifies a tool call in a stream, and ToolDetails are its details.
type (
	ToolCall    = contract.ToolCall
	ToolDetails = contract.ToolDetails
)

// ToolArgs returns the arguments of a tool call as events and records have them, nil for none. The text
// is what the model wrote, most often a JSON object.
func ToolArgs(text string) []byte { return tooltext.Args(text) }

// ToolResult returns the result of a tool, a text, as events have it, and whether it says that the
// tool has failed.
func ToolResult(text string) (result []byte, failed bool) {
	return tooltext.Result(text), tooltext.Failed(text)
}

// Step says what became of a piece of upstream's stream, and Note one thing that was done to it.
type (
	Step = contract.Step
	Note = contract.Note
)

// Summary describes a stream.
type Summary = contract.Summary

// Answer is an answer that is not streamed, repaired.
type Answer = whole.Answer

// Cause is how upstream ended.
type Cause uint8

const (
	CauseEOF      Cause = iota // a clean end of the body
	CauseAborted               // a reset, or a body that was cut
	CauseTimeout               // silence for too long
	CauseShutdown              // the end of the sidecar itself
)

// Code returns the code of the error that ends an incomplete stream for the cause.
func (c Cause) Code() string {
	return [...]string{CodeIncomplete, CodeAborted, CodeTimeout, CodeShutdown}[c]
}

// The codes of errors (contract section 3), and the messages of CodeShutdown before the
// agent has the request, and before it has shown a tool.
const (
	CodeAborted         = contract.CodeAborted
	CodeIncomplete      = contract.CodeIncomplete
	CodeTimeout         = contract.CodeTimeout
	CodeCrashed         = contract.CodeCrashed
	CodeEmpty           = contract.CodeEmpty
	CodeAgentError      = contract.CodeAgentError
	CodeAgentIncomplete = whole.CodeAgentIncomplete
	CodeShutdown        = contract.CodeShutdown
	CodeQueueFull       = contract.CodeQueueFull
	CodeQueueTimeout    = contract.CodeQueueTimeout
	ShutdownBeforeRun   = contract.ShutdownBeforeRun
	ShutdownBeforeTools = contract.ShutdownBeforeTools
)
