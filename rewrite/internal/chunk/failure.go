package chunk

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/redact"
)

// Hermes has answered with texts of its own if its agent failed (contract sections 4 and
// 6).

// uncalled matches the errors that Hermes sends as its answer if no call of the model has
// succeeded: the texts of 0.5 to 0.13, and those of later versions that are sent with usage
// 0/0/0. The last one says that there is no answer.
var uncalled = regexp.MustCompile(`^(?:` + strings.Join([]string{
	`API call failed after \d+ retries: `,
	`Error code: \d{3}(?: - |$)`,
	`Invalid API response shape\. Likely rate limited`,
	`Invalid API response after \d+ retries: `,
	`⏳ Nous Portal rate limit active — resets in `,
	`Request payload too large(?:: max compression attempts \(\d+\) reached\.| \(413\)\. Cannot compress further\.)$`,
	`Context length exceeded(?:: max compression attempts \(\d+\) reached\.| \([\d,]+ tokens\)\. Cannot compress further\.)$`,
	`(?:First response|Response) truncated due to output length limit$`,
	`Response remained truncated after 3 continuation attempts$`,
	`⚠️ \*\*Thinking Budget Exhausted\*\*\n\n`,
	`Operation interrupted(?:: (?:waiting for model response|handling API error|retrying API call)| (?:during retry|after rate limit) \()`,
	`(?s:.{0,24})⚠️ No reply: (?s:.*)all API retries`,
	`⚠️ Provider (?:authentication failed|rate-limited): `,
	`\(No response generated\)$`,
}, "|") + `)`)

// unfinished matches the errors that Hermes sends as its answer if calls of the model have
// succeeded.
var unfinished = regexp.MustCompile(`^(?:` + strings.Join([]string{
	`Incomplete REASONING_SCRATCHPAD after 2 retries$`,
	`Codex response remained incomplete after 3 continuation attempts$`,
	`Model generated invalid tool call: `,
	`Model generated only think blocks with no actual response after 3 retries$`,
	`\(empty\)$`,
	`(?s:.{0,24})⚠️ No reply: `,
	`I reached the (?:maximum iterations \(\d+\) but couldn't summarize\. Error: |iteration limit and couldn't generate a summary\.$)`,
	`I apologize, but I encountered repeated errors: Error during OpenAI-compatible API call #\d+: `,
	`I stopped retrying .+ because it hit the tool-call guardrail \(`,
}, "|") + `)`)

// IsUncalled reports whether text is one with which Hermes reports that no call of the
// model has succeeded, or that there is no answer.
func IsUncalled(text string) bool { return uncalled.MatchString(text) }

// FailureMessage returns the message, a JSON string, for a failure of the agent that Hermes
// answers with text, the inside of a JSON string. It is text without secrets and the white space
// around it, and at most contract.MaxMessage bytes of it.
func FailureMessage(text []byte) []byte {
	text = redact.Text(jsonspan.Head(text, 16*contract.MaxMessage)) // much of which may be secrets
	from, to, n := 0, 0, 0
	for i := 0; i < len(text); {
		r, next := jsonspan.NextRune(text, i)
		if n += utf8.RuneLen(r); n > contract.MaxMessage {
			break
		}
		switch {
		case !unicode.IsSpace(r):
			to = next
		case to == 0:
			from, n = next, 0
		}
		i = next
	}
	if text = text[from:max(from, to)]; len(text) == 0 {
		return jsonspan.Quote(contract.Message(contract.CodeCrashed))
	}
	return append(append([]byte{'"'}, text...), '"')
}

// Turn says whether the response of a turn of /v1/responses reports a failure.
type Turn struct {
	Text []byte // the only text that is not blank, or the last one, the inside of a JSON string
	// Failed says that the turn is completed although its only text says that the agent failed
	// (contract section 6), and FailedAtOnce that the agent has certainly done nothing, so that
	// the turn may be an error with a status (contract section 4).
	Failed, FailedAtOnce bool
}

// ReadTurn reads the response at v of data.
func ReadTurn(data []byte, v jsonspan.Span) (t Turn) {
	is := func(v jsonspan.Span, name, want string) bool {
		return jsonspan.MemberOf(data, v, name).Is(data, want)
	}
	used := func(count string) bool { return !is(jsonspan.MemberOf(data, v, "usage"), count, "0") }
	if !is(v, "status", `"completed"`) || used("input_tokens") || used("output_tokens") || used("total_tokens") {
		return t
	}
	texts, reasoning, other := 0, false, false
	for item := range jsonspan.Elements(data, jsonspan.MemberOf(data, v, "output")) {
		isReasoning := is(item, "type", `"reasoning"`)
		reasoning = reasoning || isReasoning
		other = other || !isReasoning && !is(item, "type", `"message"`)
		eachText(data, item, textDepth, func(text jsonspan.Span) {
			if in := text.Of(data); jsonspan.HasText(in) {
				t.Text = in
				texts++
			}
		})
	}
	// Hermes' own texts are short.
	text := strings.TrimSpace(string(jsonspan.AppendText(nil, jsonspan.Head(t.Text, contract.MaxMessage))))
	noCall := texts == 1 && (IsUncalled(text) || redact.Said(t.Text, false) >= 0)
	t.Failed = noCall || texts == 1 && unfinished.MatchString(text)
	t.FailedAtOnce = !other && (noCall || texts == 0 && !reasoning)
	return t
}
