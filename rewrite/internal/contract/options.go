package contract

import (
	"slices"
	"strings"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
)

// Progress is the form in which tool events leave (contract section 2).
type Progress string

// The forms of a tool event. The zero value means ProgressEnvelope.
const (
	// ProgressEnvelope sends event: hermes.tool.progress with the members of
	// a chunk in front of the tool's five fields. The default.
	ProgressEnvelope Progress = "envelope"
	// ProgressBare sends upstream's five fields only.
	ProgressBare Progress = "bare"
	// ProgressUnnamed sends the envelope without the event: line.
	ProgressUnnamed Progress = "unnamed"
	// ProgressComment sends the five fields in a comment.
	ProgressComment Progress = "comment"
	// ProgressOff sends no tool events.
	ProgressOff Progress = "off"
)

// ProgressForms lists the allowed values of Progress, the default first.
func ProgressForms() []Progress {
	return []Progress{ProgressEnvelope, ProgressBare, ProgressUnnamed, ProgressComment, ProgressOff}
}

// ProgressOf returns the form that the value of a request header asks for, ""
// when it asks for none that there is.
func ProgressOf(value string) Progress {
	p := Progress(strings.ToLower(strings.TrimSpace(value)))
	if slices.Contains(ProgressForms(), p) {
		return p
	}
	return ""
}

// Imitations says what becomes of a marker that no tool stands behind
// (contract section 1).
type Imitations string

// What becomes of imitations. The zero value means ImitationsStrip.
const (
	// ImitationsStrip removes them from the content. The default.
	ImitationsStrip Imitations = "strip"
	// ImitationsKeep leaves them in the content.
	ImitationsKeep Imitations = "keep"
	// ImitationsTrust removes them and starts a tool, for backends behind a
	// hop that cuts deltas anew.
	ImitationsTrust Imitations = "trust"
)

// ImitationsValues lists the allowed values of Imitations, the default first.
func ImitationsValues() []Imitations {
	return []Imitations{ImitationsStrip, ImitationsKeep, ImitationsTrust}
}

// ErrorFinish is the form of an error at the end of a stream (contract
// section 3).
type ErrorFinish string

// The forms of an error finish. The zero value means ErrorFinishSplit.
const (
	// ErrorFinishSplit sends the error in a frame of its own, then the finish
	// chunk. The default.
	ErrorFinishSplit ErrorFinish = "split"
	// ErrorFinishInline sends both in one chunk, as Hermes v0.18 does.
	ErrorFinishInline ErrorFinish = "inline"
)

// ErrorFinishForms lists the allowed values of ErrorFinish, the default first.
func ErrorFinishForms() []ErrorFinish {
	return []ErrorFinish{ErrorFinishSplit, ErrorFinishInline}
}

// ZeroUsage decides the false stop of an answer that has text and usage 0/0/0
// (contract section 3, third rule of "false stop").
type ZeroUsage string

// What an answer with text and usage 0/0/0 is. The zero value means
// ZeroUsageAuto.
const (
	// ZeroUsageAuto takes it for a crash when this upstream and model have
	// reported usage before. The default.
	ZeroUsageAuto ZeroUsage = "auto"
	// ZeroUsageError takes it for a crash.
	ZeroUsageError ZeroUsage = "error"
	// ZeroUsagePass lets it pass.
	ZeroUsagePass ZeroUsage = "pass"
)

// ZeroUsageValues lists the allowed values of ZeroUsage, the default first.
func ZeroUsageValues() []ZeroUsage {
	return []ZeroUsage{ZeroUsageAuto, ZeroUsageError, ZeroUsagePass}
}

// EmptyAnswer decides the false stop of an answer that says nothing, or ends on
// a tool, whatever usage it has (contract section 3, second rule of "false
// stop").
type EmptyAnswer string

// What an answer without text is. The zero value means EmptyAnswerError.
const (
	// EmptyAnswerError takes it for a failure. The default.
	EmptyAnswerError EmptyAnswer = "error"
	// EmptyAnswerPass lets it pass.
	EmptyAnswerPass EmptyAnswer = "pass"
)

// EmptyAnswerValues lists the allowed values of EmptyAnswer, the default first.
func EmptyAnswerValues() []EmptyAnswer {
	return []EmptyAnswer{EmptyAnswerError, EmptyAnswerPass}
}

// KeepaliveForm is what breaks a silence (contract section 3).
type KeepaliveForm string

// The forms of a keepalive. The zero value means KeepaliveChunk.
const (
	// KeepaliveChunk sends a chunk with an empty delta, and a comment only
	// while no chunk has come. The default.
	KeepaliveChunk KeepaliveForm = "chunk"
	// KeepaliveComment always sends a comment.
	KeepaliveComment KeepaliveForm = "comment"
)

// KeepaliveForms lists the allowed values of KeepaliveForm, the default first.
func KeepaliveForms() []KeepaliveForm {
	return []KeepaliveForm{KeepaliveChunk, KeepaliveComment}
}

// Reasoning says what becomes of reasoning between tags in the content
// (contract section 4).
type Reasoning string

// What becomes of reasoning between tags. The zero value means
// ReasoningExtract.
const (
	// ReasoningExtract moves it to delta.reasoning_content. The default.
	ReasoningExtract Reasoning = "extract"
	// ReasoningKeep leaves it in the content, tags included.
	ReasoningKeep Reasoning = "keep"
	// ReasoningDrop removes it.
	ReasoningDrop Reasoning = "drop"
)

// ReasoningValues lists the allowed values of Reasoning, the default first.
func ReasoningValues() []Reasoning {
	return []Reasoning{ReasoningExtract, ReasoningKeep, ReasoningDrop}
}

// Defaults of Options.
const (
	// DefaultMaxFrame is the size in bytes above which a frame passes
	// unexamined (contract section 0).
	DefaultMaxFrame = 1 << 20
	// DefaultParallelWindow is the time between two starts from which on the
	// second one proves that the first tool has ended (contract section 2): a busy
	// machine starts a batch with gaps of up to 370 ms.
	DefaultParallelWindow = 500 * time.Millisecond
)

// Options say how streams and histories are repaired. The zero value means the
// defaults of the contract. Options are shared by streams and must not change
// while one of them runs.
type Options struct {
	// Progress is the form of tool events.
	Progress Progress
	// StatusLine adds a status member to tool events that Open WebUI shows.
	StatusLine bool
	// Imitations says what becomes of imitated markers.
	Imitations Imitations
	// Reasoning says what becomes of reasoning between tags in the content.
	Reasoning Reasoning
	// ErrorFinish is the form of errors at the end of a stream.
	ErrorFinish ErrorFinish
	// ZeroUsage decides what an answer with text and usage 0/0/0 is.
	ZeroUsage ZeroUsage
	// EmptyAnswer decides what an answer without text is.
	EmptyAnswer EmptyAnswer
	// KeepaliveForm is what Keepalive writes.
	KeepaliveForm KeepaliveForm
	// ParallelWindow is the time between two tool starts without ids from
	// which on the second completes the first. Zero means
	// DefaultParallelWindow; a negative one completes at every start.
	ParallelWindow time.Duration
	// MaxFrame is the size in bytes above which a frame passes unexamined.
	// Zero means DefaultMaxFrame.
	MaxFrame int
	// Tools are the emoji that are known beside Hermes' own, nil for none;
	// see NewTools.
	Tools *marker.Table
}

// ProgressForm returns the form in which the tool events of a stream with the parameters
// leave.
func (o *Options) ProgressForm(p *Params) Progress {
	switch {
	case p.Progress != "":
		return p.Progress
	case o.Progress != "":
		return o.Progress
	}
	return ProgressEnvelope
}

// FrameLimit returns the size in bytes above which a frame, or an answer that is
// not streamed, passes unexamined: MaxFrame or its default, at most 1 GiB.
func (o *Options) FrameLimit() int {
	if o.MaxFrame <= 0 {
		return DefaultMaxFrame
	}
	return min(o.MaxFrame, 1<<30)
}

// Window returns ParallelWindow or its default.
func (o *Options) Window() time.Duration {
	if o.ParallelWindow == 0 {
		return DefaultParallelWindow
	}
	return o.ParallelWindow
}

// ToolTable returns Tools or its default, Hermes' own.
func (o *Options) ToolTable() *marker.Table {
	if o.Tools == nil {
		return marker.Hermes
	}
	return o.Tools
}
