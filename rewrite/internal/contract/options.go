package contract

import (
	"cmp"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
)

// Options say how streams and histories are repaired. The zero value means the defaults
// of the contract. Streams share Options, which must not change while one of them runs.
type Options struct {
	Progress      Progress      // the form of tool events; default ProgressEnvelope
	NoCards       bool          // tool events have no members of an item, of which Open WebUI makes a card
	NoStatusLine  bool          // no event has a status, which Open WebUI shows: none of upstream's state, and none of a tool without a card
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
	// Tools is the table of known emoji; nil means Hermes' own.
	Tools *marker.Table
}

// Defaults of Options.
const (
	DefaultMaxFrame = 1 << 20 // 1 MiB (contract section 0)
	// DefaultParallelWindow is that of contract section 2: a busy machine starts a batch
	// of parallel tools with gaps of up to 370 ms.
	DefaultParallelWindow = 500 * time.Millisecond
)

// WithDefaults returns o with its defaults in the place of zeros. The words may stay empty.
func (o *Options) WithDefaults() *Options {
	set := *o
	set.ParallelWindow, set.MaxFrame, set.Tools = cmp.Or(o.ParallelWindow, DefaultParallelWindow), o.FrameLimit(), cmp.Or(o.Tools, marker.Hermes)
	return &set
}

// ProgressForm returns the form of the tool events in a stream with the parameters p.
func (o *Options) ProgressForm(p *Params) Progress {
	return cmp.Or(p.Progress, o.Progress, ProgressEnvelope)
}

// Envelops reports whether named events of the form have the members of a chunk.
func (p Progress) Envelops() bool { return p == ProgressEnvelope || p == ProgressUnnamed }

// FrameLimit returns the size in bytes above which a frame, or an answer that is
// not streamed, passes unexamined: MaxFrame or its default, at most 1 GiB.
func (o *Options) FrameLimit() int {
	if o.MaxFrame <= 0 {
		return DefaultMaxFrame
	}
	return min(o.MaxFrame, 1<<30)
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

// The types of the options that are words. Package rewrite says what their values mean.
type (
	Progress      string
	Imitations    string
	Reasoning     string
	ErrorFinish   string
	ZeroUsage     string
	EmptyAnswer   string
	KeepaliveForm string
)

// The values of the options that are words and that change what the defaults do.
const (
	ProgressEnvelope  Progress      = "envelope"
	ProgressBare      Progress      = "bare"
	ProgressUnnamed   Progress      = "unnamed"
	ProgressComment   Progress      = "comment"
	ProgressOff       Progress      = "off"
	ImitationsStrip   Imitations    = "strip"
	ImitationsKeep    Imitations    = "keep"
	ImitationsTrust   Imitations    = "trust"
	ReasoningKeep     Reasoning     = "keep"
	ReasoningDrop     Reasoning     = "drop"
	ErrorFinishInline ErrorFinish   = "inline"
	ZeroUsageError    ZeroUsage     = "error"
	ZeroUsagePass     ZeroUsage     = "pass"
	EmptyAnswerError  EmptyAnswer   = "error"
	EmptyAnswerPass   EmptyAnswer   = "pass"
	KeepaliveComment  KeepaliveForm = "comment"
)
