// Package rewrite repairs the event stream of a chat completion that the Hermes agent
// wrote: it takes tool markers and reasoning out of the content, correlates the starts and
// ends of tools, and turns a crash into an error finish. The wire contract says what it
// does. Comments name its sections.
//
// The caller pushes: Stream.Feed takes bytes as they are read and appends what may leave to a
// buffer of the caller's, and Stream.Finish says how upstream ended. The package knows
// nothing of HTTP and reads no clock. The same bytes in give the same bytes out, however
// they are cut. Heal takes the markers of earlier streams out of the history that a
// request carries, and RepairAnswer repairs answers that are not streamed.
//
// The packages of the engine share Options, Params, Summary and the types around approvals, which are
// declared below this one: go doc ./rewrite/internal/contract Options lists the fields.
package rewrite

import (
	"cmp"
	"slices"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/redact"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/whole"
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

// ImitationsValues lists the allowed values of Imitations, the default first.
func ImitationsValues() []Imitations {
	return []Imitations{ImitationsAuto, ImitationsStrip, ImitationsKeep, ImitationsTrust}
}

// ReasoningValues lists the allowed values of Reasoning, the default first.
func ReasoningValues() []Reasoning {
	return []Reasoning{ReasoningExtract, ReasoningKeep, ReasoningDrop}
}

// ErrorFinishForms lists the allowed values of ErrorFinish, the default first.
func ErrorFinishForms() []ErrorFinish { return []ErrorFinish{ErrorFinishSplit, ErrorFinishInline} }

// ZeroUsageValues lists the allowed values of ZeroUsage, the default first.
func ZeroUsageValues() []ZeroUsage {
	return []ZeroUsage{ZeroUsageAuto, ZeroUsageError, ZeroUsagePass}
}

// EmptyAnswerValues lists the allowed values of EmptyAnswer, the default first.
func EmptyAnswerValues() []EmptyAnswer { return []EmptyAnswer{EmptyAnswerError, EmptyAnswerPass} }

// KeepaliveForms lists the allowed values of KeepaliveForm, the default first.
func KeepaliveForms() []KeepaliveForm { return []KeepaliveForm{KeepaliveChunk, KeepaliveComment} }

// ToolSources lists the sources of tool events.
func ToolSources() []ToolSource {
	return []ToolSource{contract.SourceUpstream, contract.SourceMarker, contract.SourceImitation, contract.SourceInferred, contract.SourceEnd}
}

// Message returns what an error with the code tells the client. It names no address.
func Message(code string) string { return contract.Message(code) }

// AppendError appends the JSON object of an error with the code to dst.
func AppendError(dst []byte, code, message string) []byte {
	return contract.AppendErrorObject(dst, jsonspan.Quote(message), code)
}

// NewTools returns Hermes' own table with the emoji in added, each for its tool. It
// returns the error of CheckTool for an emoji that no marker can have, and for an empty or
// internal name.
func NewTools(added map[string]string) (*Tools, error) { return marker.NewTable(added) }

// CheckTool returns an error that says why emoji cannot stand for the tool with the name,
// or nil if it can.
func CheckTool(emoji, name string) error { return marker.CheckTool(emoji, name) }

// Finite returns the JSON b with null in the place of NaN and the infinities, which Python writes, so that
// other parsers read it (contract section 0). If there are none, it returns b.
func Finite(b []byte) []byte { return jsonspan.Finite(b) }

// WithoutImitations returns tools, with which Heal removes no markers. Nil tools mean Hermes' own.
func WithoutImitations(tools *Tools) *Tools { return cmp.Or(tools, marker.Hermes).WithoutImitations() }

// Redact returns text, in which upstream says something of a failure, without secrets
// (contract section 3).
func Redact(text string) string { return string(redact.Text([]byte(text))) }

// RedactError returns body, the JSON with which upstream answers a request that failed, without
// secrets (contract section 3). If there are none it returns body itself. A body that is not well
// formed, because it was cut for example, is also examined as a text.
func RedactError(body []byte) []byte {
	clean := redact.Value(body)
	if jsonspan.Valid(body) {
		return clean
	}
	return redact.Text(clean)
}

// RepairAnswer repairs the answer in body, which is not streamed: a chat completion as a
// stream would be (contract sections 1, 3 and 4), and a response of /v1/responses or the
// answer of a session (section 6). Any other body stays as it is. Nil usage means no
// memory.
func RepairAnswer(body []byte, o *Options, usage UsageMemory) Answer {
	return whole.RepairAnswer(body, o.WithDefaults(), usage)
}
