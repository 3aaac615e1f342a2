package contract

import (
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
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

// Progress is the form in which tool events leave.
type Progress string

// The values of the options that are words.
const (
	ProgressEnvelope  = "envelope"
	ProgressBare      = "bare"
	ProgressUnnamed   = "unnamed"
	ProgressComment   = "comment"
	ProgressOff       = "off"
	ImitationsStrip   = "strip"
	ImitationsKeep    = "keep"
	ImitationsTrust   = "trust"
	ReasoningExtract  = "extract"
	ReasoningKeep     = "keep"
	ReasoningDrop     = "drop"
	ErrorFinishSplit  = "split"
	ErrorFinishInline = "inline"
	ZeroUsageAuto     = "auto"
	ZeroUsageError    = "error"
	ZeroUsagePass     = "pass"
	EmptyAnswerError  = "error"
	EmptyAnswerPass   = "pass"
	KeepaliveChunk    = "chunk"
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
}

// UsageMemory remembers which models report usage.
type UsageMemory interface {
	Reported(model string) bool
	Report(model string)
	Missed(model string)
	ReportsFailures(does bool)
}
