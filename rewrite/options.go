package rewrite

import (
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
)

// Options configure how streams and histories are repaired. The zero value means the defaults of
// the contract. Streams may share Options, which must not change while one of them runs.
type Options = contract.Options

// Defaults of Options.
const (
	DefaultMaxFrame       = contract.DefaultMaxFrame
	DefaultParallelWindow = contract.DefaultParallelWindow
)

// Tools is a table of the tools that the emoji in markers stand for. NewTools makes one.
type Tools = marker.Table

// Progress is the form in which tool events leave (contract section 2). The zero value
// means ProgressEnvelope.
type Progress = contract.Progress

const (
	ProgressEnvelope Progress = contract.ProgressEnvelope // "envelope": event: hermes.tool.progress, a chunk's members before the tool's five fields
	ProgressBare     Progress = contract.ProgressBare     // "bare": upstream's five fields only
	ProgressUnnamed  Progress = contract.ProgressUnnamed  // "unnamed": the data of ProgressEnvelope without the event: line
	ProgressComment  Progress = contract.ProgressComment  // "comment": the five fields in a comment
	ProgressOff      Progress = contract.ProgressOff      // "off": no tool events
)

// Imitations says what becomes of a marker that the model wrote itself, without a tool
// (contract section 1). The zero value means ImitationsAuto.
type Imitations = contract.Imitations

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
type Reasoning = contract.Reasoning

const (
	ReasoningExtract Reasoning = "extract"              // "extract": it moves to delta.reasoning_content
	ReasoningKeep    Reasoning = contract.ReasoningKeep // "keep": it stays in the content, tags included
	ReasoningDrop    Reasoning = contract.ReasoningDrop // "drop": it is removed
)

// ErrorFinish is the form of an error at the end of a stream (contract section 3). The
// zero value means ErrorFinishSplit.
type ErrorFinish = contract.ErrorFinish

const (
	ErrorFinishSplit  ErrorFinish = "split"                    // "split": the error in a frame of its own, then the finish chunk
	ErrorFinishInline ErrorFinish = contract.ErrorFinishInline // "inline": both in one chunk, as Hermes v0.18 does
)

// ZeroUsage says how to treat an answer with text and usage 0/0/0 (contract section 3, third rule
// of "false stop"). The zero value means ZeroUsageAuto.
type ZeroUsage = contract.ZeroUsage

const (
	ZeroUsageAuto  ZeroUsage = "auto"                  // "auto": a crash if this upstream and model have reported usage before
	ZeroUsageError ZeroUsage = contract.ZeroUsageError // "error": a crash
	ZeroUsagePass  ZeroUsage = contract.ZeroUsagePass  // "pass": an answer
)

// EmptyAnswer says how to treat an answer that says nothing or ends with a tool, whatever its
// usage (contract section 3, second rule of "false stop"). The zero value means EmptyAnswerError.
type EmptyAnswer = contract.EmptyAnswer

const (
	EmptyAnswerError EmptyAnswer = contract.EmptyAnswerError // "error": a failure
	EmptyAnswerPass  EmptyAnswer = contract.EmptyAnswerPass  // "pass": an answer
)

// KeepaliveForm is the form of a keepalive (contract section 3). The zero value means
// KeepaliveChunk.
type KeepaliveForm = contract.KeepaliveForm

const (
	KeepaliveChunk   KeepaliveForm = "chunk"                   // "chunk": a chunk with an empty delta, or a comment before the first chunk
	KeepaliveComment KeepaliveForm = contract.KeepaliveComment // "comment": a comment
)
