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
	// Body is what the client gets: the repaired answer, or an error object if the
	// answer failed, which needs a status of its own. It is the body given to
	// RepairAnswer if there is nothing to repair.
	Body []byte
	// Summary describes the answer. Its Code is CodeAgentIncomplete if the answer failed, and
	// otherwise empty.
	contract.Summary
	// Completion says that the answer is a chat completion. Otherwise the Summary is
	// empty.
	Completion bool
	// Changed says that Body is not the body given to RepairAnswer.
	Changed bool
	// Kept is the body for a client that asks for a response again, which runs no agent: the
	// repaired answer, even if it failed. It is nil if the answer is no response.
	Kept []byte
}

// RepairAnswer repairs the chat completion in body, an answer that is not
// streamed: reasoning between tags becomes message.reasoning_content, marker
// lines leave message.content, and a stop of an agent that failed becomes an error
// (contract sections 1, 3 and 4, as for streams). Other answers of Hermes are left to
// repairOther. Nil usage means no memory.
func RepairAnswer(body []byte, o *contract.Options, usage contract.UsageMemory) Answer {
	a := completion{o: o, copier: copier{b: body}}
	if !a.c.Parse(body) || !a.c.Object.Is(body, `"chat.completion"`) || !a.c.ChoicesArray {
		return repairOther(body)
	}
	if o.AutoImitations() && usage != nil && mayHaveMarker(body, o.Tools) && usage.SendsEvents() {
		known := *o
		known.Tools = o.Tools.WithoutImitations()
		a.o = &known
	}
	a.sum.ID, a.sum.Model = jsonspan.Unquote(a.c.ID.Of(body)), jsonspan.Unquote(a.c.Model.Of(body))
	a.sum.InputTokens, a.sum.OutputTokens = a.c.Tokens.Input, a.c.Tokens.Output
	if a.c.Tokens.Counts && usage != nil {
		usage.Report(a.sum.Model)
	}
	// If the answer says that the agent failed, its content says why.
	saysError := a.c.Err.IsSet(body) || jsonspan.MemberOf(body, a.c.Hermes, "failed").Is(body, "true")
	a.apart = a.hasReasoning()
	var m said
	n := 0
	for v := range jsonspan.Elements(body, a.c.Choices) {
		if n++; n > maxChoices {
			break
		}
		m = a.repair(v)
		saysError = saysError || a.sum.FinishReason == "error"
	}
	zero := n == 1 && a.stopsAtZero(&m)
	if zero && (m.isFailure() || o.ZeroUsage == contract.ZeroUsageError) {
		a.sum.Code, a.sum.FinishReason = CodeAgentIncomplete, ""
		return Answer{Body: failure(m.content), Summary: a.sum, Completion: true, Changed: true}
	}
	if a.sum.ZeroUsagePassed = zero; zero && usage != nil && o.AutoZeroUsage() {
		usage.Missed(a.sum.Model)
	}
	clean := redactAnswer(a.rest(), saysError)
	return Answer{Body: clean, Summary: a.sum, Completion: true, Changed: !bytes.Equal(clean, body)}
}

// completion is a chat completion that is repaired.
type completion struct {
	copier
	o   *contract.Options
	sum contract.Summary
	c   chunk.Chunk // its members outside the choices

	apart bool // a message has reasoning of its own: tags in the texts are text
}

// maxChoices is the number of choices of an answer that are looked at (contract
// section 4).
const maxChoices = 64

// hasReasoning reports whether a message has reasoning of its own.
func (a *completion) hasReasoning() bool {
	n := 0
	for v := range jsonspan.Elements(a.b, a.c.Choices) {
		if n++; n > maxChoices {
			break
		}
		for key, value := range jsonspan.Members(a.b, jsonspan.MemberOf(a.b, v, "message")) {
			switch string(key.Of(a.b)) {
			case "reasoning_content", "reasoning":
				if value.IsString(a.b) && jsonspan.HasText(value.Inner().Of(a.b)) {
					return true
				}
			}
		}
	}
	return false
}

// said describes the message of a choice after its repair.
type said struct {
	content   []byte // the inside of a JSON string
	reasoning bool   // reasoning has a non-space character
	other     bool   // it has something other than text
	stop      bool   // the choice's finish_reason is stop
}

// repair takes reasoning and markers out of the message of the choice at v.
func (a *completion) repair(v jsonspan.Span) (m said) {
	reason := jsonspan.MemberOf(a.b, v, "finish_reason")
	m.stop, m.reasoning = reason.Is(a.b, `"stop"`), a.apart
	a.sum.FinishReason = jsonspan.Unquote(reason.Of(a.b))
	v = jsonspan.MemberOf(a.b, v, "message")
	var at, reasoningAt jsonspan.Span // of content and reasoning_content
	for key, value := range jsonspan.Members(a.b, v) {
		switch string(key.Of(a.b)) {
		case "role", "reasoning":
		case "content":
			at = value
			m.other = m.other || !value.IsString(a.b) && chunk.Filled(value.Of(a.b))
		case "reasoning_content":
			reasoningAt = value
		default:
			m.other = m.other || chunk.Filled(value.Of(a.b))
		}
	}
	if !at.IsString(a.b) {
		return m
	}
	var reasoning []byte
	var stretches, markers int
	m.content = at.Inner().Of(a.b)
	if a.o.Reasoning != contract.ReasoningKeep && !a.apart && (!reasoningAt.IsSet(a.b) || reasoningAt.IsString(a.b)) {
		m.content, reasoning, stretches = prose.Split(m.content, a.o)
	}
	if a.o.Imitations != contract.ImitationsKeep {
		m.content, markers = StripMarkers(m.content, a.o.Tools)
	}
	a.sum.Reasoning += stretches
	a.sum.Imitations += markers
	if len(m.content) == len(at.Inner().Of(a.b)) {
		return m // nothing was removed
	}
	m.reasoning = a.apart || jsonspan.HasText(reasoning)
	if a.o.Reasoning == contract.ReasoningDrop {
		reasoning = nil
	}
	a.write(v, at, m.content, reasoningAt, reasoning)
	return m
}

// write replaces the content at contentAt in the message at v, and adds reasoning to the
// reasoning_content at reasoningAt, if there is one. Both are insides of JSON strings. Members
// keep their order.
func (a *completion) write(v, contentAt jsonspan.Span, content []byte, reasoningAt jsonspan.Span, reasoning []byte) {
	before := jsonspan.Inside(jsonspan.StringAt(a.b, reasoningAt)) // white space, if anything
	content = quote(content)
	if len(reasoning) > 0 {
		if reasoning = quote(slices.Concat(before, reasoning)); !reasoningAt.Ok() {
			content = slices.Concat(content, []byte(`,"reasoning_content":`), reasoning)
		}
	}
	for _, value := range jsonspan.Members(a.b, v) {
		with := content
		if value == reasoningAt {
			with = reasoning
		}
		if len(with) > 0 && (value == contentAt || value == reasoningAt) {
			a.cut(value.From, value.To)
			a.out = append(a.out, with...)
		}
	}
}

// stopsAtZero reports whether the answer has stop and usage 0/0/0, so that the agent may have failed
// without saying so (contract section 3, "false stop"). Modern Hermes says so in a hermes block.
//
// Unless m is a failure, it passes if zero_usage is not error, even if the model has reported usage
// before. A stream that fails still delivers its text. An error status does not, and makes clients
// repeat the request.
func (a *completion) stopsAtZero(m *said) bool {
	return m.stop && !m.other && a.c.Tokens.Zero && !a.c.Hermes.IsSet(a.b) && !a.c.Err.IsSet(a.b)
}

// isFailure reports whether the message, which came with usage 0/0/0, is empty or one of Hermes' own
// errors.
func (m *said) isFailure() bool {
	text := strings.TrimSpace(string(jsonspan.AppendText(nil, m.content)))
	return text == "" && !m.reasoning || chunk.IsUncalled(text)
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

// repairOther repairs the other answers of Hermes' API that are not streamed: a response of
// /v1/responses, the answer of a session, and an error with the status of a success. They lose the
// secrets in what they say of a failure, and a response that failed at once becomes an error
// (contract section 6).
func repairOther(body []byte) Answer {
	all := jsonspan.ObjectIn(body)
	member := func(name string) jsonspan.Span { return jsonspan.MemberOf(body, all, name) }
	response, session := member("object").Is(body, `"response"`), member("object").Is(body, `"hermes.session.chat.completion"`)
	saysError := member("error").IsSet(body)
	if !response && !session && !saysError || !jsonspan.Valid(body) {
		return Answer{Body: body}
	}
	clean := redactAnswer(body, response && member("status").Is(body, `"failed"`) || saysError && !session)
	a := Answer{Body: clean, Changed: !bytes.Equal(clean, body)}
	if !response {
		return a
	}
	a.Kept = clean
	if t := chunk.ReadTurn(body, all); t.FailedAtOnce {
		a.Body, a.Changed = failure(t.Text), true
		a.Summary = contract.Summary{ID: jsonspan.Unquote(member("id").Of(body)), Model: jsonspan.Unquote(member("model").Of(body)), Code: CodeAgentIncomplete}
	}
	return a
}

// redactAnswer returns the answer in body without the secrets in what it says of an
// error. If failed is true, every member may say something of it, except those that
// identify the answer.
func redactAnswer(body []byte, failed bool) []byte {
	if failed {
		return redact.Replace(body, func(each func(jsonspan.Span)) {
			for key, value := range jsonspan.Members(body, jsonspan.ObjectIn(body)) {
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
	return redact.Replace(body, func(each func(jsonspan.Span)) { chunk.EachSaid(body, jsonspan.ObjectIn(body), false, each) })
}
