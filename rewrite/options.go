package rewrite

import (
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
)

// Options say how streams and histories are repaired. The zero value means the defaults
// of the contract. Streams share Options, which must not change while one of them runs.
type Options struct {
	Progress      Progress      // the form of tool events; default ProgressEnvelope
	StatusLine    bool          // tool events have a member status, which Open WebUI shows; default false
	Cards         bool          // tool events have the members of an item, of which Open WebUI makes a card; default false
	Imitations    Imitations    // what becomes of imitated markers; default ImitationsStrip
	Reasoning     Reasoning     // what becomes of reasoning between tags in the content; default ReasoningExtract
	ErrorFinish   ErrorFinish   // the form of errors at the end of a stream; default ErrorFinishSplit
	ZeroUsage     ZeroUsage     // what an answer with text and usage 0/0/0 is; default ZeroUsageAuto
	EmptyAnswer   EmptyAnswer   // what an answer without text is; default EmptyAnswerError
	KeepaliveForm KeepaliveForm // what Keepalive writes; default KeepaliveChunk
	// ParallelWindow is the least time between two tool starts without ids at which
	// the second completes the first. Zero means DefaultParallelWindow, 500 ms. With a negative
	// window every start completes the tools before it.
	ParallelWindow time.Duration
	// MaxFrame is the size in bytes above which a frame passes unexamined.
	// Zero means DefaultMaxFrame, 1 MiB.
	MaxFrame int
	// Tools is the table of known emoji; nil means Hermes' own. See NewTools.
	Tools *Tools
}

// Defaults of Options.
const (
	DefaultMaxFrame       = contract.DefaultMaxFrame       // 1 MiB
	DefaultParallelWindow = contract.DefaultParallelWindow // 500 ms
)

// internal returns o as the packages below know it: the fields are the same.
func (o *Options) internal() *contract.Options { return (*contract.Options)(o) }

// ProgressForm returns the form of the tool events in a stream with the parameters p.
func (o *Options) ProgressForm(p *Params) Progress {
	return o.internal().ProgressForm(&contract.Params{Progress: p.Progress})
}

// FrameLimit returns the size in bytes above which a frame, or an answer that is
// not streamed, passes unexamined: MaxFrame or its default, at most 1 GiB.
func (o *Options) FrameLimit() int { return o.internal().FrameLimit() }

// Tools is a table that says which tool an emoji in a marker stands for. NewTools makes one.
type Tools = marker.Table

// Progress is the form in which tool events leave (contract section 2). The zero value
// means ProgressEnvelope.
type Progress = contract.Progress

const (
	ProgressEnvelope = contract.ProgressEnvelope // "envelope": event: hermes.tool.progress, a chunk's members before the tool's five fields
	ProgressBare     = contract.ProgressBare     // "bare": upstream's five fields only
	ProgressUnnamed  = contract.ProgressUnnamed  // "unnamed": the data of ProgressEnvelope without the event: line
	ProgressComment  = contract.ProgressComment  // "comment": the five fields in a comment
	ProgressOff      = contract.ProgressOff      // "off": no tool events
)

// Imitations says what becomes of a marker that the model wrote itself, without a tool
// (contract section 1). The zero value means ImitationsStrip.
type Imitations = contract.Imitations

const (
	ImitationsStrip = contract.ImitationsStrip // "strip": it is removed from the content
	ImitationsKeep  = contract.ImitationsKeep  // "keep": it stays in the content
	// ImitationsTrust ("trust") removes it and starts a tool. It is for backends behind a
	// hop that cuts deltas differently, so that real markers look like imitations.
	ImitationsTrust = contract.ImitationsTrust
)

// Reasoning says what becomes of reasoning between tags in the content (contract
// section 4). The zero value means ReasoningExtract.
type Reasoning = contract.Reasoning

const (
	ReasoningExtract = contract.ReasoningExtract // "extract": it moves to delta.reasoning_content
	ReasoningKeep    = contract.ReasoningKeep    // "keep": it stays in the content, tags included
	ReasoningDrop    = contract.ReasoningDrop    // "drop": it is removed
)

// ErrorFinish is the form of an error at the end of a stream (contract section 3). The
// zero value means ErrorFinishSplit.
type ErrorFinish = contract.ErrorFinish

const (
	ErrorFinishSplit  = contract.ErrorFinishSplit  // "split": the error in a frame of its own, then the finish chunk
	ErrorFinishInline = contract.ErrorFinishInline // "inline": both in one chunk, as Hermes v0.18 does
)

// ZeroUsage decides what an answer with text and usage 0/0/0 is (contract section 3, third
// rule of "false stop"). The zero value means ZeroUsageAuto.
type ZeroUsage = contract.ZeroUsage

const (
	ZeroUsageAuto  = contract.ZeroUsageAuto  // "auto": a crash if this upstream and model have reported usage before
	ZeroUsageError = contract.ZeroUsageError // "error": a crash
	ZeroUsagePass  = contract.ZeroUsagePass  // "pass": an answer
)

// EmptyAnswer decides what an answer is that says nothing, or ends with a tool, whatever
// its usage (contract section 3, second rule of "false stop"). The zero value means
// EmptyAnswerError.
type EmptyAnswer = contract.EmptyAnswer

const (
	EmptyAnswerError = contract.EmptyAnswerError // "error": a failure
	EmptyAnswerPass  = contract.EmptyAnswerPass  // "pass": an answer
)

// KeepaliveForm is what breaks a silence (contract section 3). The zero value means
// KeepaliveChunk.
type KeepaliveForm = contract.KeepaliveForm

const (
	KeepaliveChunk   = contract.KeepaliveChunk   // "chunk": a chunk with an empty delta, or a comment while no chunk has come
	KeepaliveComment = contract.KeepaliveComment // "comment": a comment
)
