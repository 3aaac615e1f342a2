package rewrite

import (
	"cmp"
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
	Imitations    Imitations    // what becomes of imitated markers; default ImitationsAuto
	Reasoning     Reasoning     // what becomes of reasoning between tags in the content; default ReasoningExtract
	ErrorFinish   ErrorFinish   // the form of errors at the end of a stream; default ErrorFinishSplit
	ZeroUsage     ZeroUsage     // how to treat an answer with text and usage 0/0/0; default ZeroUsageAuto
	EmptyAnswer   EmptyAnswer   // how to treat an answer without text; default EmptyAnswerError
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
	DefaultMaxFrame = 1 << 20 // 1 MiB (contract section 0)
	// DefaultParallelWindow is that of contract section 2: a busy machine starts a batch
	// of parallel tools with gaps of up to 370 ms.
	DefaultParallelWindow = 500 * time.Millisecond
)

// internal returns o with its defaults, as the packages below know it.
func (o *Options) internal() *contract.Options {
	return &contract.Options{
		StatusLine: o.StatusLine, Cards: o.Cards, Imitations: string(o.Imitations), Reasoning: string(o.Reasoning),
		ErrorFinish: string(o.ErrorFinish), ZeroUsage: string(o.ZeroUsage), EmptyAnswer: string(o.EmptyAnswer),
		KeepaliveForm: string(o.KeepaliveForm), ParallelWindow: cmp.Or(o.ParallelWindow, DefaultParallelWindow),
		MaxFrame: o.FrameLimit(), Tools: cmp.Or(o.Tools, marker.Hermes),
	}
}

// ProgressForm returns the form of the tool events in a stream with the parameters p.
func (o *Options) ProgressForm(p *Params) Progress {
	return cmp.Or(p.Progress, o.Progress, ProgressEnvelope)
}

// FrameLimit returns the size in bytes above which a frame, or an answer that is
// not streamed, passes unexamined: MaxFrame or its default, at most 1 GiB.
func (o *Options) FrameLimit() int {
	if o.MaxFrame <= 0 {
		return DefaultMaxFrame
	}
	return min(o.MaxFrame, 1<<30)
}

// Tools is a table that says which tool an emoji in a marker stands for. NewTools makes one.
type Tools = marker.Table

// Progress is the form in which tool events leave (contract section 2). The zero value
// means ProgressEnvelope.
type Progress string

const (
	ProgressEnvelope Progress = contract.ProgressEnvelope // "envelope": event: hermes.tool.progress, a chunk's members before the tool's five fields
	ProgressBare     Progress = contract.ProgressBare     // "bare": upstream's five fields only
	ProgressUnnamed  Progress = contract.ProgressUnnamed  // "unnamed": the data of ProgressEnvelope without the event: line
	ProgressComment  Progress = contract.ProgressComment  // "comment": the five fields in a comment
	ProgressOff      Progress = contract.ProgressOff      // "off": no tool events
)

// Imitations says what becomes of a marker that the model wrote itself, without a tool
// (contract section 1). The zero value means ImitationsAuto.
type Imitations string

const (
	// ImitationsAuto ("auto") removes it from the content as long as upstream is not known to send
	// tool events: the stream has shown none, and EventMemory does not know better.
	ImitationsAuto  Imitations = "auto"
	ImitationsStrip Imitations = contract.ImitationsStrip // "strip": it is removed from the content
	ImitationsKeep  Imitations = contract.ImitationsKeep  // "keep": it stays in the content
	// ImitationsTrust ("trust") removes it and starts a tool. It is for backends after a
	// hop that cuts deltas differently, so that real markers look like imitations.
	ImitationsTrust Imitations = contract.ImitationsTrust
)

// Reasoning says what becomes of reasoning between tags in the content (contract
// section 4). The zero value means ReasoningExtract.
type Reasoning string

const (
	ReasoningExtract Reasoning = "extract"              // "extract": it moves to delta.reasoning_content
	ReasoningKeep    Reasoning = contract.ReasoningKeep // "keep": it stays in the content, tags included
	ReasoningDrop    Reasoning = contract.ReasoningDrop // "drop": it is removed
)

// ErrorFinish is the form of an error at the end of a stream (contract section 3). The
// zero value means ErrorFinishSplit.
type ErrorFinish string

const (
	ErrorFinishSplit  ErrorFinish = "split"                    // "split": the error in a frame of its own, then the finish chunk
	ErrorFinishInline ErrorFinish = contract.ErrorFinishInline // "inline": both in one chunk, as Hermes v0.18 does
)

// ZeroUsage says how to treat an answer with text and usage 0/0/0 (contract section 3, third rule
// of "false stop"). The zero value means ZeroUsageAuto.
type ZeroUsage string

const (
	ZeroUsageAuto  ZeroUsage = "auto"                  // "auto": a crash if this upstream and model have reported usage before
	ZeroUsageError ZeroUsage = contract.ZeroUsageError // "error": a crash
	ZeroUsagePass  ZeroUsage = contract.ZeroUsagePass  // "pass": an answer
)

// EmptyAnswer says how to treat an answer that says nothing or ends with a tool, whatever its
// usage (contract section 3, second rule of "false stop"). The zero value means EmptyAnswerError.
type EmptyAnswer string

const (
	EmptyAnswerError EmptyAnswer = contract.EmptyAnswerError // "error": a failure
	EmptyAnswerPass  EmptyAnswer = contract.EmptyAnswerPass  // "pass": an answer
)

// KeepaliveForm is the form of a keepalive (contract section 3). The zero value means
// KeepaliveChunk.
type KeepaliveForm string

const (
	KeepaliveChunk   KeepaliveForm = "chunk"                   // "chunk": a chunk with an empty delta, or a comment while no chunk has come
	KeepaliveComment KeepaliveForm = contract.KeepaliveComment // "comment": a comment
)
