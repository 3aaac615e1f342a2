package rewrite

import (
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/redact"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/whole"
)

// The vocabulary of the engine is declared in internal/contract, which every package
// below this one may know. See go doc rewrite/internal/contract for all comments.

// Options say how streams and histories are repaired. The zero value means the defaults
// of the contract. Streams share Options, which must not change while one of them runs.
//
//	Progress       Progress       the form of tool events (contract section 2)
//	StatusLine     bool           adds a status member to them that Open WebUI shows
//	Cards          bool           makes cards of them that Open WebUI draws
//	Imitations     Imitations     what becomes of imitated markers (section 1)
//	Reasoning      Reasoning      what becomes of reasoning between tags (section 4)
//	ErrorFinish    ErrorFinish    the form of errors at the end of a stream (section 3)
//	ZeroUsage      ZeroUsage      what an answer with text and usage 0/0/0 is (section 3)
//	EmptyAnswer    EmptyAnswer    what an answer without text is (section 3)
//	KeepaliveForm  KeepaliveForm  what Keepalive writes (section 3)
//	ParallelWindow time.Duration  the least time between two tool starts without ids at
//	                              which the second completes the first; 0 means
//	                              DefaultParallelWindow, a negative one always
//	MaxFrame       int            the size in bytes above which a frame passes unexamined;
//	                              0 means DefaultMaxFrame
//	Tools          *Tools         the known emoji; nil means Hermes' own
type Options = contract.Options

// Params are what is particular to one stream.
//
//	Active          bool             the stream is one of chat completions from the start
//	Responses       bool             the request's path is that of /v1/responses
//	RunID           string           the run whose events the stream has, see RunOfPath
//	SessionID       string           the session that the stream is in, see SessionOfPath
//	Progress        Progress         overrides Options.Progress unless it is empty
//	ID, Created     func() string, int64
//	                                 for an error finish if no chunk has come
//	Usage           UsageMemory      which models report usage; nil means no memory
//	OnTool          func(ToolEvent)  is called for each start and end of a tool; may be nil
//	Explain         func(Step)       is called with what becomes of each piece; may be nil
type Params = contract.Params

// Summary is what can be said of a stream: ID, Model, FinishReason and Code; the counts
// Frames, Chunks, Tools, Markers, Imitations, Reasoning, Unexamined and Keepalives;
// InputTokens and OutputTokens; UsageReported and ZeroUsagePassed.
type Summary = contract.Summary

// UsageMemory remembers which models of an upstream have reported usage, and whether the
// upstream reports its failures itself (contract section 3, third rule of "false stop").
// Its methods are Reported, Report, Missed and ReportsFailures.
type UsageMemory = contract.UsageMemory

// ToolEvent says that a tool has started or ended: ID, Name, Completed and Source.
type ToolEvent = contract.ToolEvent

// ToolSource is what said that a tool has started or ended.
type ToolSource = contract.ToolSource

// The sources of tool events (contract sections 1 and 2).
const (
	SourceUpstream  = contract.SourceUpstream  // a tool event that upstream sent
	SourceMarker    = contract.SourceMarker    // a marker in the text; it only starts tools
	SourceImitation = contract.SourceImitation // a trusted imitation; it only starts tools
	SourceInferred  = contract.SourceInferred  // what came after the tool; it only ends tools
	SourceEnd       = contract.SourceEnd       // the end of the stream; it only ends tools
)

// ToolSources lists all sources.
func ToolSources() []ToolSource { return contract.ToolSources() }

// Step is what became of a piece of upstream's stream: In, Out, Held and Notes.
type Step = contract.Step

// Note says one thing that was done to a piece: the Section of the contract and a Text.
type Note = contract.Note

// Progress is the form in which tool events leave (contract section 2).
type Progress = contract.Progress

// The forms of a tool event. The zero value means ProgressEnvelope.
const (
	ProgressEnvelope = contract.ProgressEnvelope // an event with the members of a chunk in front
	ProgressBare     = contract.ProgressBare     // upstream's five fields only
	ProgressUnnamed  = contract.ProgressUnnamed  // the envelope without the event: line
	ProgressComment  = contract.ProgressComment  // the five fields in a comment
	ProgressOff      = contract.ProgressOff      // no tool events
)

// ProgressForms lists the allowed values of Progress, the default first.
func ProgressForms() []Progress { return contract.ProgressForms() }

// ProgressOf returns the form that the value of a request header asks for, or "".
func ProgressOf(value string) Progress { return contract.ProgressOf(value) }

// Imitations says what becomes of a marker that the model wrote itself (contract section 1).
type Imitations = contract.Imitations

// What becomes of imitations. The zero value means ImitationsStrip.
const (
	ImitationsStrip = contract.ImitationsStrip // removed from the content
	ImitationsKeep  = contract.ImitationsKeep  // left in the content
	ImitationsTrust = contract.ImitationsTrust // removed, and a tool starts
)

// ImitationsValues lists the allowed values of Imitations, the default first.
func ImitationsValues() []Imitations { return contract.ImitationsValues() }

// ErrorFinish is the form of an error at the end of a stream (contract section 3).
type ErrorFinish = contract.ErrorFinish

// The forms of an error finish. The zero value means ErrorFinishSplit.
const (
	ErrorFinishSplit  = contract.ErrorFinishSplit  // the error in a frame, then the finish chunk
	ErrorFinishInline = contract.ErrorFinishInline // both in one chunk
)

// ErrorFinishForms lists the allowed values of ErrorFinish, the default first.
func ErrorFinishForms() []ErrorFinish { return contract.ErrorFinishForms() }

// ZeroUsage decides whether text with usage 0/0/0 is a false stop (contract section 3).
type ZeroUsage = contract.ZeroUsage

// What an answer with text and usage 0/0/0 is. The zero value means ZeroUsageAuto.
const (
	ZeroUsageAuto  = contract.ZeroUsageAuto  // a crash if the model has reported usage before
	ZeroUsageError = contract.ZeroUsageError // a crash
	ZeroUsagePass  = contract.ZeroUsagePass  // an answer
)

// ZeroUsageValues lists the allowed values of ZeroUsage, the default first.
func ZeroUsageValues() []ZeroUsage { return contract.ZeroUsageValues() }

// EmptyAnswer decides whether an answer that says nothing, or ends with a tool, is a false
// stop (contract section 3).
type EmptyAnswer = contract.EmptyAnswer

// What an answer without text is. The zero value means EmptyAnswerError.
const (
	EmptyAnswerError = contract.EmptyAnswerError // a failure
	EmptyAnswerPass  = contract.EmptyAnswerPass  // an answer
)

// EmptyAnswerValues lists the allowed values of EmptyAnswer, the default first.
func EmptyAnswerValues() []EmptyAnswer { return contract.EmptyAnswerValues() }

// KeepaliveForm is what breaks a silence (contract section 3).
type KeepaliveForm = contract.KeepaliveForm

// The forms of a keepalive. The zero value means KeepaliveChunk.
const (
	KeepaliveChunk   = contract.KeepaliveChunk   // a chunk with an empty delta, once a chunk has come
	KeepaliveComment = contract.KeepaliveComment // a comment
)

// KeepaliveForms lists the allowed values of KeepaliveForm, the default first.
func KeepaliveForms() []KeepaliveForm { return contract.KeepaliveForms() }

// Reasoning says what becomes of reasoning between tags in the content (contract section 4).
type Reasoning = contract.Reasoning

// What becomes of reasoning between tags. The zero value means ReasoningExtract.
const (
	ReasoningExtract = contract.ReasoningExtract // moved to delta.reasoning_content
	ReasoningKeep    = contract.ReasoningKeep    // left in the content, tags included
	ReasoningDrop    = contract.ReasoningDrop    // removed
)

// ReasoningValues lists the allowed values of Reasoning, the default first.
func ReasoningValues() []Reasoning { return contract.ReasoningValues() }

// Defaults of Options.
const (
	DefaultMaxFrame       = contract.DefaultMaxFrame       // in bytes (contract section 0)
	DefaultParallelWindow = contract.DefaultParallelWindow // contract section 2
)

// Cause says how upstream ended. Its method Code returns the code of the error that this
// is in an incomplete stream.
type Cause = contract.Cause

// The ways in which upstream can end.
const (
	CauseEOF      = contract.CauseEOF      // a clean end
	CauseAborted  = contract.CauseAborted  // a reset or a torn body
	CauseTimeout  = contract.CauseTimeout  // a silence that lasted too long
	CauseShutdown = contract.CauseShutdown // the end of the sidecar itself
)

// The codes of errors (contract section 3), and the type of those that are not upstream's.
const (
	CodeAborted    = contract.CodeAborted
	CodeIncomplete = contract.CodeIncomplete
	CodeTimeout    = contract.CodeTimeout
	CodeCrashed    = contract.CodeCrashed
	CodeEmpty      = contract.CodeEmpty
	CodeAgentError = contract.CodeAgentError
	CodeShutdown   = contract.CodeShutdown
	ErrorType      = contract.ErrorType
)

// ShutdownBeforeTools is the message of CodeShutdown if no tool has started.
const ShutdownBeforeTools = contract.ShutdownBeforeTools

// Message returns what an error with the code tells the client. It names no address.
func Message(code string) string { return contract.Message(code) }

// AppendError appends the JSON object of an error with the code to dst.
func AppendError(dst []byte, code, message string) []byte {
	return contract.AppendError(dst, code, message)
}

// IsChatPath reports whether the path of a request is one for chat completions.
func IsChatPath(path string) bool { return contract.IsChatPath(path) }

// IsResponsesPath reports whether the path of a request is one of /v1/responses.
func IsResponsesPath(path string) bool { return contract.IsResponsesPath(path) }

// RunOfPath returns the id in a path that ends in /runs/{id}/events, or "".
func RunOfPath(path string) string { return contract.RunOfPath(path) }

// SessionOfPath returns the id in a path that ends in /api/sessions/{id}/chat/stream, or "".
func SessionOfPath(path string) string { return contract.SessionOfPath(path) }

// Tools maps emoji in markers to tools (contract section 2).
type Tools = marker.Table

// NewTools returns Hermes' own table with the emoji in added, each for its tool. It
// returns the error of CheckTool for an emoji that no marker can have, and for an empty or
// internal name.
func NewTools(added map[string]string) (*Tools, error) { return marker.NewTable(added) }

// CheckTool returns an error that says why emoji cannot stand for the tool with the name,
// or nil if it can.
func CheckTool(emoji, name string) error { return marker.CheckTool(emoji, name) }

// Redact returns text, in which upstream says something of a failure, without secrets
// (contract section 3).
func Redact(text string) string { return string(redact.Text([]byte(text))) }

// Heal removes the marker lines of known tools from the content of the assistant's
// messages in body, the JSON of a request, and joins the messages of each answer that Open
// WebUI has taken apart for its cards (contract section 5). Every other byte stays.
// The healed body is a copy. If there is nothing to heal it is body itself. A body that is
// not well-formed JSON passes untouched. Nil tools mean Hermes' own.
func Heal(body []byte, tools *Tools) ([]byte, Healed) { return whole.Heal(body, tools) }

// Healed is what Heal has removed from the body of a request and read in it: Markers,
// Cards and Asked.
type Healed = whole.Healed

// Asked is what a request says about the form of its answer, in its member stream.
type Asked = whole.Asked

// What a request may say about the form of its answer.
const (
	AskedUnknown = whole.AskedUnknown // not an object, or stream is neither boolean nor null
	AskedStream  = whole.AskedStream  // "stream": true
	AskedWhole   = whole.AskedWhole   // stream is false, null or absent: the answer comes whole
)

// RepairAnswer repairs the chat completion in body, an answer that is not streamed, as a
// stream would be (contract sections 1, 3 and 4). A body that is not a chat completion
// stays as it is. Nil usage means no memory.
func RepairAnswer(body []byte, o *Options, usage UsageMemory) Answer {
	return whole.RepairAnswer(body, o, usage)
}

// Answer is a chat completion that is not streamed, repaired: Body, Summary, Completion and
// Changed. If the answer failed, Body is an error object and the Summary's Code is
// CodeAgentIncomplete.
type Answer = whole.Answer

// CodeAgentIncomplete is the code of the error that answers a request if the agent
// failed and its answer is not streamed.
const CodeAgentIncomplete = whole.CodeAgentIncomplete
