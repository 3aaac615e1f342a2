package whole

import (
	"bytes"
	"slices"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/redact"
)

// CodeAgentIncomplete is the code of the error that answers a request if the agent
// failed and its answer is not streamed. Hermes v0.13 has it.
const CodeAgentIncomplete = "agent_incomplete"

// Answer is an answer that is not streamed, repaired.
type Answer struct {
	Body []byte
	contract.Summary
	Completion, Changed bool
	Kept                []byte
}

// RepairAnswer repairs the chat completion in body, an answer that is not
// streamed: reasoning between tags becomes message.reasoning_content, marker
// lines leave message.content, and a stop of an agent that failed becomes an error
// (contract sections 1, 3 and 4, as for streams). Other answers of Hermes are left to
// repairOther. Nil usage means no memory.
func RepairAnswer(body []byte, o *contract.Options, usage contract.UsageMemory) Answer {
	a := completion{o: o, copier: copier{b: body}}
	if !a.parse() {
		return repairOther(body)
	}
	if a.c.Tokens.Counts && usage != nil {
		usage.Report(a.sum.Model)
	}
	for i := range a.messages {
		a.repair(&a.messages[i])
	}
	if a.failed() {
		a.sum.Code, a.sum.FinishReason = CodeAgentIncomplete, ""
		return Answer{Body: failure(a.messages[0].left), Summary: a.sum, Completion: true, Changed: true}
	}
	clean := redactAnswer(a.rest(), a.saysError())
	return Answer{Body: clean, Summary: a.sum, Completion: true, Changed: !bytes.Equal(clean, body)}
}

// completion is an answer by position in its bytes.
type completion struct {
	copier
	o   *contract.Options
	sum contract.Summary

	c        chunk.Chunk // its members outside the choices
	messages []choice
	error    bool // a choice's finish_reason is error
}

// maxChoices is the number of choices of an answer that are looked at (contract
// section 4).
const maxChoices = 64

// choice is the message of a choice.
type choice struct {
	left []byte // the rest of the content, the inside of a JSON string

	content, reasoning jsonspan.Span // reasoning_content
	hasReasoning       bool          // reasoning, of either name, has a non-space character
	hasOther           bool          // there is something in it that is no text
	stop               bool          // the choice's finish_reason is stop
}

// parse reads the answer. It returns false if that is not a chat completion or not well
// formed.
func (a *completion) parse() bool {
	if !a.c.Parse(a.b) || !a.c.Object.Is(a.b, `"chat.completion"`) || !a.c.ChoicesArray {
		return false
	}
	a.sum.ID, a.sum.Model = unquote(a.c.ID.Of(a.b)), unquote(a.c.Model.Of(a.b))
	a.sum.InputTokens, a.sum.OutputTokens = a.c.Tokens.Input, a.c.Tokens.Output
	for v := range jsonspan.Elements(a.b, a.c.Choices) {
		if len(a.messages) == maxChoices {
			break
		}
		m := a.readMessage(jsonspan.MemberOf(a.b, v, "message"))
		reason := jsonspan.MemberOf(a.b, v, "finish_reason")
		m.stop = reason.Is(a.b, `"stop"`)
		a.sum.FinishReason = unquote(reason.Of(a.b))
		a.error = a.error || a.sum.FinishReason == "error"
		a.messages = append(a.messages, m)
	}
	return true
}

// readMessage reads the members of the message at v.
func (a *completion) readMessage(v jsonspan.Span) (m choice) {
	for key, value := range jsonspan.Members(a.b, v) {
		switch string(key.Of(a.b)) {
		case "role":
		case "content":
			m.content = value
			m.hasOther = m.hasOther || !value.IsString(a.b) && chunk.Filled(value.Of(a.b))
		case "reasoning_content", "reasoning":
			m.hasReasoning = m.hasReasoning || value.IsString(a.b) && jsonspan.HasText(value.Inner().Of(a.b))
			if key.Is(a.b, "reasoning_content") {
				m.reasoning = value
			}
		default:
			m.hasOther = m.hasOther || chunk.Filled(value.Of(a.b))
		}
	}
	return m
}

// repair takes reasoning and markers out of a message.
func (a *completion) repair(m *choice) {
	if !m.content.IsString(a.b) {
		return
	}
	content := m.content.Inner().Of(a.b)
	m.left = content
	var reasoning []byte
	if a.o.Reasoning != contract.ReasoningKeep && (!m.reasoning.IsSet(a.b) || m.reasoning.IsString(a.b)) {
		var n int
		content, reasoning, n = prose.Split(content, a.o)
		a.sum.Reasoning += n
	}
	if a.o.Imitations != contract.ImitationsKeep {
		var n int
		content, n = StripMarkers(content, a.o.Tools)
		a.sum.Imitations += n
	}
	if len(content) == m.content.To-m.content.From-len(`""`) {
		return // nothing was removed
	}
	m.left, m.hasReasoning = content, m.hasReasoning || jsonspan.HasText(reasoning)
	if a.o.Reasoning == contract.ReasoningDrop {
		reasoning = nil
	}
	a.write(m, content, reasoning)
}

// write replaces the content of the message, and adds reasoning to its reasoning. Both are
// insides of JSON strings. Members keep their order.
func (a *completion) write(m *choice, content, reasoning []byte) {
	content = quote(content)
	said := jsonspan.Inside(jsonspan.StringAt(a.b, m.reasoning))
	if jsonspan.HasText(said) {
		said = slices.Concat(said, []byte(prose.BreakInJSON))
	}
	reasons := len(reasoning) > 0 && m.reasoning.Ok()
	if reasoning = quote(slices.Concat(said, reasoning)); !m.reasoning.Ok() && len(reasoning) > len(`""`) {
		content = slices.Concat(content, []byte(`,"reasoning_content":`), reasoning)
	}
	replace := func(v jsonspan.Span, with []byte) {
		a.cut(v.From, v.To)
		a.out = append(a.out, with...)
	}
	if reasons && m.reasoning.From < m.content.From {
		replace(m.reasoning, reasoning)
	}
	replace(m.content, content)
	if reasons && m.reasoning.From > m.content.From {
		replace(m.reasoning, reasoning)
	}
}

// failed reports whether the agent failed without saying so: the answer has stop and usage
// 0/0/0, and is empty or one of Hermes' own errors (contract section 3, "false stop"). Modern
// Hermes says so in a hermes block.
//
// Other text with usage 0/0/0 passes unless zero_usage is error, even if the model has
// reported usage before. A stream that fails still delivers its text. An error status
// does not, and makes clients repeat the request.
func (a *completion) failed() bool {
	if !a.c.Tokens.Zero || len(a.messages) != 1 || a.c.Hermes.IsSet(a.b) || a.c.Err.IsSet(a.b) {
		return false
	}
	m := &a.messages[0]
	if !m.stop || m.hasOther {
		return false
	}
	said := strings.TrimSpace(string(jsonspan.AppendText(nil, m.left)))
	if said == "" && !m.hasReasoning || chunk.IsUncalled(said) {
		return true
	}
	a.sum.ZeroUsagePassed = a.o.ZeroUsage != contract.ZeroUsageError
	return !a.sum.ZeroUsagePassed
}

// saysError reports whether the answer says that the agent failed. Its content then says
// why.
func (a *completion) saysError() bool {
	return a.error || a.c.Err.IsSet(a.b) || jsonspan.MemberOf(a.b, a.c.Hermes, "failed").Is(a.b, "true")
}

// failure returns the error object of modern Hermes. Its message is said, the text that
// legacy Hermes sent as the answer, the inside of a JSON string.
func failure(said []byte) []byte {
	return slices.Concat([]byte(`{"error":{"message":`), chunk.FailureMessage(said), []byte(`,"type":"server_error","param":null,"code":"`+CodeAgentIncomplete+
		`","hermes":{"completed":false,"partial":false,"failed":true}}}`))
}

// quote returns inner as a JSON string.
func quote(inner []byte) []byte {
	return slices.Concat([]byte{'"'}, inner, []byte{'"'})
}

// unquote returns the text of a JSON string, or "" if raw is not a string.
func unquote(raw []byte) string { return jsonspan.Unquote(string(raw)) }

// repairOther repairs the other answers of Hermes' API that are not streamed: a response of
// /v1/responses, and the answer of a session. They lose the secrets in what they say of a
// failure, and a response that failed at once becomes an error (contract section 6).
func repairOther(body []byte) Answer {
	if !jsonspan.Valid(body) {
		return Answer{Body: body}
	}
	all := object(body)
	member := func(name string) jsonspan.Span { return jsonspan.MemberOf(body, all, name) }
	switch {
	case member("object").Is(body, `"response"`):
		clean := redactAnswer(body, member("status").Is(body, `"failed"`) || member("error").IsSet(body))
		a := Answer{Body: clean, Kept: clean, Changed: !bytes.Equal(clean, body)}
		if t := chunk.ReadTurn(body, all); t.FailedAtOnce {
			a.Body, a.Changed = failure(t.Text), true
			a.Summary = contract.Summary{ID: unquote(member("id").Of(body)), Model: unquote(member("model").Of(body)), Code: CodeAgentIncomplete}
		}
		return a
	case member("object").Is(body, `"hermes.session.chat.completion"`):
		clean := redactAnswer(body, false)
		return Answer{Body: clean, Changed: !bytes.Equal(clean, body)}
	}
	return Answer{Body: body}
}

// redactAnswer returns the answer in body without the secrets in what it says of an
// error. If failed is true, every member may say something of it, except those that
// identify the answer.
func redactAnswer(body []byte, failed bool) []byte {
	if failed {
		return redact.Replace(body, func(each func(jsonspan.Span)) {
			for key, value := range jsonspan.Members(body, object(body)) {
				switch string(key.Of(body)) {
				case "id", "object", "created", "model", "usage":
				default:
					chunk.EachSecret(body, value, each)
				}
			}
		})
	}
	body = redact.Replace(body, func(each func(jsonspan.Span)) {
		chunk.EachError(body, func(value jsonspan.Span) { chunk.EachSecret(body, value, each) })
	})
	if !redact.MaySay(body) {
		return body
	}
	return redact.Replace(body, func(each func(jsonspan.Span)) { chunk.EachSaid(body, object(body), false, each) })
}

// object returns where the object in body is.
func object(body []byte) jsonspan.Span {
	return jsonspan.Span{From: jsonspan.SkipSpace(body, 0), To: len(body)}
}
