package whole

import (
	"bytes"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/redact"
)

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
