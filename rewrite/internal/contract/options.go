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
	// a chunk before the tool's five fields. The default.
	ProgressEnvelope Progress = "envelope"
	// ProgressBare sends upstream's five fields only.
	ProgressBare Progress = "bare"
	// ProgressUnnamed sends the same data without the event: line.
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

// ProgressOf returns the form that the value of a request header asks for, or "" if
// there is no such form.
func ProgressOf(value string) Progress {
	p := Progress(strings.ToLower(strings.TrimSpace(value)))
	if slices.Contains(ProgressForms(), p) {
		return p
	}
	return ""
}

// Imitations says what becomes of a marker that the model wrote itself, with no tool
// behind it (contract section 1).
type Imitations string

// What becomes of imitations. The zero value means ImitationsStrip.
const (
	// ImitationsStrip removes them from the content. The default.
	ImitationsStrip Imitations = "strip"
	// ImitationsKeep leaves them in the content.
	ImitationsKeep Imitations = "keep"
	// ImitationsTrust removes them and starts a tool. It is for backends behind a hop
	// that cuts deltas differently, so that real markers look like imitations.
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

// ZeroUsage decides whether an answer with text and usage 0/0/0 is a false stop
// (contract section 3, third rule of "false stop").
type ZeroUsage string

// What an answer with text and usage 0/0/0 is. The zero value means
// ZeroUsageAuto.
const (
	// ZeroUsageAuto takes it for a crash if this upstream and model have
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

// EmptyAnswer decides whether an answer that says nothing, or ends with a tool, is a
// false stop, whatever its usage (contract section 3, second rule of "false stop").
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
	// KeepaliveChunk sends a chunk with an empty delta, or a comment
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
	// DefaultParallelWindow is the time between two starts that proves that the first
	// tool has ended (contract section 2). A busy machine starts a batch of parallel
	// tools with gaps of up to 370 ms.
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
	// Cards adds members to tool events of which Open WebUI makes a card, and an output
	// behind each completed one.
	Cards bool
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
	// ParallelWindow is the least time between two tool starts without ids at which
	// the second completes the first. Zero means DefaultParallelWindow. With a negative
	// window every start completes the tools before it.
	ParallelWindow time.Duration
	// MaxFrame is the size in bytes above which a frame passes unexamined.
	// Zero means DefaultMaxFrame.
	MaxFrame int
	// Tools is the table of known emoji; nil means Hermes' own. See marker.NewTable.
	Tools *marker.Table
}

// ProgressForm returns the form of the tool events in a stream with the parameters p.
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
