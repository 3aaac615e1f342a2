package contract

import (
	"cmp"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
)

// Options is rewrite.Options.
type Options struct {
	Progress       Progress
	StatusLine     bool
	Cards          bool
	Imitations     Imitations
	Reasoning      Reasoning
	ErrorFinish    ErrorFinish
	ZeroUsage      ZeroUsage
	EmptyAnswer    EmptyAnswer
	KeepaliveForm  KeepaliveForm
	ParallelWindow time.Duration
	MaxFrame       int
	Tools          *marker.Table
}

// Progress is rewrite.Progress.
type Progress string

const (
	ProgressEnvelope Progress = "envelope"
	ProgressBare     Progress = "bare"
	ProgressUnnamed  Progress = "unnamed"
	ProgressComment  Progress = "comment"
	ProgressOff      Progress = "off"
)

// Imitations is rewrite.Imitations.
type Imitations string

const (
	ImitationsStrip Imitations = "strip"
	ImitationsKeep  Imitations = "keep"
	ImitationsTrust Imitations = "trust"
)

// Reasoning is rewrite.Reasoning.
type Reasoning string

const (
	ReasoningExtract Reasoning = "extract"
	ReasoningKeep    Reasoning = "keep"
	ReasoningDrop    Reasoning = "drop"
)

// ErrorFinish is rewrite.ErrorFinish.
type ErrorFinish string

const (
	ErrorFinishSplit  ErrorFinish = "split"
	ErrorFinishInline ErrorFinish = "inline"
)

// ZeroUsage is rewrite.ZeroUsage.
type ZeroUsage string

const (
	ZeroUsageAuto  ZeroUsage = "auto"
	ZeroUsageError ZeroUsage = "error"
	ZeroUsagePass  ZeroUsage = "pass"
)

// EmptyAnswer is rewrite.EmptyAnswer.
type EmptyAnswer string

const (
	EmptyAnswerError EmptyAnswer = "error"
	EmptyAnswerPass  EmptyAnswer = "pass"
)

// KeepaliveForm is rewrite.KeepaliveForm.
type KeepaliveForm string

const (
	KeepaliveChunk   KeepaliveForm = "chunk"
	KeepaliveComment KeepaliveForm = "comment"
)

// Defaults of Options.
const (
	DefaultMaxFrame = 1 << 20 // in bytes (contract section 0)
	// DefaultParallelWindow is that of contract section 2: a busy machine starts a batch
	// of parallel tools with gaps of up to 370 ms.
	DefaultParallelWindow = 500 * time.Millisecond
)

// ProgressForm returns the form of the tool events in a stream with the parameters p.
func (o *Options) ProgressForm(p *Params) Progress {
	return cmp.Or(p.Progress, o.Progress, ProgressEnvelope)
}

// Window returns ParallelWindow or its default.
func (o *Options) Window() time.Duration {
	if o.ParallelWindow == 0 {
		return DefaultParallelWindow
	}
	return o.ParallelWindow
}

// FrameLimit returns the size in bytes above which a frame, or an answer that is
// not streamed, passes unexamined: MaxFrame or its default, at most 1 GiB.
func (o *Options) FrameLimit() int {
	if o.MaxFrame <= 0 {
		return DefaultMaxFrame
	}
	return min(o.MaxFrame, 1<<30)
}

// ToolTable returns Tools or its default, Hermes' own.
func (o *Options) ToolTable() *marker.Table {
	if o.Tools == nil {
		return marker.Hermes
	}
	return o.Tools
}
