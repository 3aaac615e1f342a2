package whole

import (
	"bytes"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/redact"
	"github.com/tidwall/gjson"
)

// CodeAgentIncomplete is the code of the error that answers a request when the
// agent failed and its answer is not streamed. Hermes v0.13 has it.
const CodeAgentIncomplete = "agent_incomplete"

// Answer is a chat completion that is not streamed, repaired.
type Answer struct {
	// Body is what the client gets: of an answer that failed the error object,
	// with a status of its own; otherwise the answer, which is the one given
	// when nothing was to be repaired.
	Body []byte
	// contract.Summary has what is said of streams as well. Its Code is
	// CodeAgentIncomplete when the answer failed, and empty otherwise.
	contract.Summary
	// Completion says that it is one: otherwise nothing is known of it.
	Completion bool
	// Changed says that Body is not the one given.
	Changed bool
}

// RepairAnswer repairs the chat completion in body, an answer that is not
// streamed: reasoning between tags becomes message.reasoning_content, marker
// lines leave message.content, and where the agent failed and says stop the
// answer becomes an error (contract sections 1, 3 and 4, as for streams). What
// is no chat completion stays as it is. Nil usage is no memory.
func RepairAnswer(body []byte, o *contract.Options, usage contract.UsageMemory) Answer {
	a := answer{o: o, b: body, usage: usage}
	if !a.parse() {
		return Answer{Body: body}
	}
	a.recordUsage()
	for i := range a.messages {
		a.repair(&a.messages[i])
	}
	if a.failed() {
		a.sum.Code, a.sum.FinishReason = CodeAgentIncomplete, ""
		return Answer{a.appendFailure(nil), a.sum, true, true}
	}
	repaired := body
	if a.at > 0 {
		repaired = append(a.out, body[a.at:]...)
	}
	clean := redactAnswer(repaired, a.saysError())
	return Answer{clean, a.sum, true, !bytes.Equal(clean, body)}
}

// answer is a chat completion by position in its bytes.
type answer struct {
	o     *contract.Options
	b     []byte
	usage contract.UsageMemory
	sum   contract.Summary

	c        chunk.Chunk // its members outside the choices
	messages []message

	out []byte // the repaired answer so far
	at  int    // up to where b is in out
}

// maxChoices is how many choices of an answer at most are looked at (contract
// section 4).
const maxChoices = 64

// message is the message of a choice.
type message struct {
	left []byte // what is left of the content, the inside of a JSON string

	content, reasoning jsonspan.Span // reasoning_content
	hasReasoning       bool          // reasoning, of either name, has a non-space character
	hasOther           bool          // there is something in it that is no text
	stop               bool          // the choice's finish_reason is stop
}

// parse reads the answer, and is false when it is no chat completion, or not
// well formed.
func (a *answer) parse() bool {
	if !a.c.Parse(a.b) {
		return false
	}
	if !a.c.Object.Is(a.b, `"chat.completion"`) || !a.c.Choices.Ok() || a.b[a.c.Choices.From] != '[' {
		return false
	}
	a.sum.ID, a.sum.Model = unquote(a.c.ID.Of(a.b)), unquote(a.c.Model.Of(a.b))
	for choice := range jsonspan.Elements(a.b, a.c.Choices) {
		if len(a.messages) == maxChoices {
			break
		}
		a.messages = append(a.messages, a.readChoice(choice))
	}
	return true
}

func (a *answer) readChoice(choice jsonspan.Span) message {
	m := a.readMessage(jsonspan.MemberOf(a.b, choice, "message"))
	reason := jsonspan.MemberOf(a.b, choice, "finish_reason")
	m.stop = reason.Is(a.b, `"stop"`)
	a.sum.FinishReason = unquote(reason.Of(a.b))
	return m
}

func (a *answer) readMessage(v jsonspan.Span) (m message) {
	for key, value := range jsonspan.Members(a.b, v) {
		switch string(key.Of(a.b)) {
		case "role":
		case "content":
			m.content = value
			m.hasOther = m.hasOther || !value.IsString(a.b) && chunk.Filled(value.Of(a.b))
		case "reasoning_content":
			m.reasoning = value
			m.hasReasoning = m.hasReasoning || a.says(value)
		case "reasoning":
			m.hasReasoning = m.hasReasoning || a.says(value)
		default:
			m.hasOther = m.hasOther || chunk.Filled(value.Of(a.b))
		}
	}
	return m
}

// says reports whether the value is a string with a non-space character.
func (a *answer) says(v jsonspan.Span) bool {
	return v.IsString(a.b) && jsonspan.HasText(v.Inner().Of(a.b))
}

// repair takes reasoning and markers out of a message.
func (a *answer) repair(m *message) {
	if !m.content.IsString(a.b) {
		return
	}
	content := m.content.Inner().Of(a.b)
	m.left = content
	if !prose.HasSigns(content) {
		return
	}
	tools := a.o.ToolTable()
	if a.o.Imitations == contract.ImitationsKeep {
		tools = nil
	}
	var thought []byte
	if a.o.Reasoning != contract.ReasoningKeep && (!m.reasoning.IsSet(a.b) || m.reasoning.IsString(a.b)) {
		var n int
		content, thought, n = prose.Split(content, tools)
		a.sum.Reasoning += n
	}
	if tools != nil {
		var n int
		content, n = StripMarkers(content, tools)
		a.sum.Imitations += n
	}
	if len(content) == m.content.To-m.content.From-len(`""`) {
		return // what is removed leaves it shorter
	}
	m.left, m.hasReasoning = content, m.hasReasoning || jsonspan.HasText(thought)
	if a.o.Reasoning == contract.ReasoningDrop {
		thought = nil
	}
	a.write(m, content, thought)
}

// write has the message say content and, behind what it says already, thought:
// both are insides of JSON strings. Members keep their order.
func (a *answer) write(m *message, content, thought []byte) {
	content = quote(content)
	switch {
	case len(thought) == 0:
		a.replace(m.content, content)
	case !m.reasoning.Ok():
		a.replace(m.content, append(append(append(content, `,"reasoning_content":"`...), thought...), '"'))
	default:
		said := jsonspan.Inside(jsonspan.StringAt(a.b, m.reasoning))
		thought = quote(prose.AppendReasoning(append([]byte(nil), said...), thought, jsonspan.HasText(said)))
		if m.reasoning.From < m.content.From {
			a.replace(m.reasoning, thought)
			a.replace(m.content, content)
		} else {
			a.replace(m.content, content)
			a.replace(m.reasoning, thought)
		}
	}
}

// replace replaces a value. Values are replaced in order.
func (a *answer) replace(v jsonspan.Span, with []byte) {
	a.out = append(append(a.out, a.b[a.at:v.From]...), with...)
	a.at = v.To
}

// noteUsage remembers that this model reports usage.
func (a *answer) recordUsage() {
	u := &a.c.Tokens
	a.sum.InputTokens, a.sum.OutputTokens = u.Input, u.Output
	if u.Counts && a.usage != nil {
		a.usage.Report(a.sum.Model)
	}
}

// noAnswer is what legacy Hermes answers when the agent has said nothing
// (nonstream.empty.http).
const noAnswer = "(No response generated)"

// hermesError matches the errors that Hermes sends as its answer, with stop, when no
// call of the model has succeeded (nonstream.failed_result.http): the texts of 0.5 to
// 0.13, and those of later versions whose usage is 0/0/0.
var hermesError = regexp.MustCompile(`^(?:` + strings.Join([]string{
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
	`⚠️ No reply: (?s:.*)all API retries`,
	`⚠️ Provider (?:authentication failed|rate-limited): `,
}, "|") + `)`)

// failed reports whether the agent failed, and did not say so: the answer ends
// with stop, with a usage of 0/0/0, and it is none, or one of Hermes' own
// errors (contract section 3, "false stop"; modern Hermes has a hermes block
// where it failed). Text with such a usage passes even where usage has been
// reported before, unless zero_usage says otherwise: a stream would still
// deliver it, a status would not, and clients repeat the request.
func (a *answer) failed() bool {
	if !a.c.Tokens.Zero || len(a.messages) != 1 || a.c.Hermes.IsSet(a.b) || a.c.Err.IsSet(a.b) {
		return false
	}
	m := &a.messages[0]
	if !m.stop || m.hasOther {
		return false
	}
	said := m.text()
	switch {
	case said == "" && !m.hasReasoning, said == noAnswer, hermesError.MatchString(said):
		return true
	}
	a.sum.ZeroUsagePassed = a.o.ZeroUsage != contract.ZeroUsageError
	return !a.sum.ZeroUsagePassed
}

// saysError reports whether the answer says that the agent failed: its content is why.
func (a *answer) saysError() bool {
	return a.sum.FinishReason == "error" || a.c.Err.IsSet(a.b) || jsonspan.MemberOf(a.b, a.c.Hermes, "failed").Is(a.b, "true")
}

// text returns what the message says.
func (m *message) text() string { return strings.TrimSpace(unquote(quote(m.left))) }

// appendFailure appends the error object of modern Hermes. What legacy Hermes
// sends as the answer is its message, as far as that is repaired, and short.
func (a *answer) appendFailure(dst []byte) []byte {
	message := jsonspan.Quote(contract.Message(contract.CodeCrashed))
	if text := a.messages[0].text(); text != "" && text != noAnswer {
		message = quote(a.messages[0].failure())
	}
	dst = append(dst, `{"error":{"message":`...)
	dst = append(dst, message...)
	return append(dst, `,"type":"server_error","param":null,"code":"`+CodeAgentIncomplete+
		`","hermes":{"completed":false,"partial":false,"failed":true}}}`...)
}

// failure returns what the message says, the inside of a JSON string, without secrets,
// at most contract.MaxMessage bytes, and as it is escaped.
func (m *message) failure() []byte {
	text := redact.Text(m.left)
	from, to, n := 0, 0, 0
	for i := 0; i < len(text); {
		r, next := jsonspan.NextRune(text, i)
		if n += utf8.RuneLen(r); n > contract.MaxMessage {
			break
		}
		switch {
		case !jsonspan.IsSpace(r):
			to = next
		case to == 0:
			from, n = next, 0
		}
		i = next
	}
	return text[from:to]
}

// quote returns inner as a JSON string.
func quote(inner []byte) []byte {
	b := make([]byte, 0, len(inner)+2)
	b = append(b, '"')
	b = append(b, inner...)
	return append(b, '"')
}

// redactAnswer returns the answer in body, which is not streamed, without the secrets
// in what it says of an error. Where it says one, that is all that it says but for what
// names it.
func redactAnswer(body []byte, failed bool) []byte {
	return redact.Replace(body, func(each func(jsonspan.Span)) {
		for key, value := range jsonspan.Members(body, jsonspan.Span{From: jsonspan.SkipSpace(body, 0), To: len(body)}) {
			switch name := string(key.Of(body)); {
			case failed && name != "id" && name != "object" && name != "created" && name != "model" && name != "usage",
				chunk.SaysError(key.Of(body)):
				chunk.EachSecret(body, value, each)
			}
		}
	})
}

// unquote returns what a JSON string says, and any other value as it stands.
func unquote(raw []byte) string { return gjson.ParseBytes(raw).String() }
