// Package rewrite repairs what a Hermes agent answers: the event streams of chat completions, of
// responses and of runs, and answers that are not streamed. It removes tool markers and reasoning
// from the content, pairs the start of each tool with its end, and turns a crash into an error
// finish. It also heals the histories that requests carry. Bytes go in and bytes come out: the
// package knows nothing of HTTP, starts no goroutine and reads no clock.
//
//	s := rewrite.New(&rewrite.Options{}, rewrite.Params{Active: true})
//	out = s.Feed(out[:0], in, time.Now())          // for each read from upstream
//	out = s.Finish(out[:0], rewrite.CauseEOF)      // or how else upstream has ended
//
// [Heal] removes the markers of earlier answers from the body of a request, and [RepairAnswer]
// repairs the body of an answer that is not streamed. For HTTP, use package proxy, which does all
// of this around a handler.
//
// The zero [Options] are the defaults of the contract. There are no errors to handle: bytes that
// the package does not understand pass unchanged, and what went wrong upstream is in the stream and
// in [Stream.Summary]. However the input is cut into reads, the output is the same. A [Stream] must
// not be used by two goroutines at once; Options may be shared by any number of streams, as long as
// nobody changes them. What a stream keeps in memory is bounded.
//
// [The contract] has every rule, and comments name its sections: [tool markers] (1), [tools] (2),
// [the end of a stream] (3), [reasoning] (4), [histories] (5), [the other streams] (6). The types
// that the packages of the engine share, such as Options, Params and Summary, are declared below
// this one: go doc ./rewrite/internal/contract Options lists the fields.
//
// [The contract]: https://github.com/hermes-sidecar/hermes-sidecar/blob/main/docs/contract.md
// [tool markers]: https://github.com/hermes-sidecar/hermes-sidecar/blob/main/docs/contract.md#1-tool-markers-g0
// [tools]: https://github.com/hermes-sidecar/hermes-sidecar/blob/main/docs/contract.md#2-tool-lifecycle
// [the end of a stream]: https://github.com/hermes-sidecar/hermes-sidecar/blob/main/docs/contract.md#3-the-end-of-a-stream
// [reasoning]: https://github.com/hermes-sidecar/hermes-sidecar/blob/main/docs/contract.md#4-reasoning
// [histories]: https://github.com/hermes-sidecar/hermes-sidecar/blob/main/docs/contract.md#5-histories
// [the other streams]: https://github.com/hermes-sidecar/hermes-sidecar/blob/main/docs/contract.md#6-the-other-streams
package rewrite

import (
	"slices"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/redact"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/whole"
)

// IsSeen reports whether the character r shows something of its own, and does not change how others are shown.
// Control and direction characters, spaces other than U+0020, fillers, variation selectors and unassigned
// code points do not: what users read has them as escapes (contract section 2).
func IsSeen(r rune) bool { return marker.IsSeen(r) }

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

// NewTools returns Hermes' own table with the emoji in added, each for its tool. It returns an error
// that says what is wrong if no marker can have an emoji, or if a name is empty or internal.
func NewTools(added map[string]string) (*Tools, error) { return marker.NewTable(added) }

// Finite returns the JSON b with null in the place of NaN and the infinities, which Python writes, so that
// other parsers read it (contract section 0). If there are none, it returns b.
func Finite(b []byte) []byte { return jsonspan.Finite(b) }

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
