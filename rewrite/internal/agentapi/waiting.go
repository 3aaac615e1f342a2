package agentapi

import (
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/redact"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// Refuse writes the last events of a stream whose request got an error with the message, a JSON
// string, and the code instead of an answer, so that upstream has sent nothing. A stream that is
// not one of a session counts as one of /v1/responses.
func (s *Follower) Refuse(out *sse.Writer, message []byte, code string) {
	quoted := string(jsonspan.Truncate(jsonspan.Quote(code), contract.MaxMessage))
	text := string(jsonspan.Truncate(redact.Value(message), contract.MaxMessage)) // half a secret is none
	out.BeginOwn()
	if s.kind == kindSession {
		out.Bytes = s.appendFailure(out.Bytes, "error", `"message": `+text+`, "code": `+quoted+`, `)
		out.Bytes = s.appendEvent(out.Bytes, "done", "")
	} else {
		s.kind, s.named = kindResponses, true
		// Strict clients accept no other codes for a failure that is not the client's fault, so
		// the code has a member of its own.
		answer := "server_error"
		if isRateLimit[code] {
			answer = "rate_limit_exceeded"
		}
		failed := `{"code":"` + answer + `","message":` + text + `,"hermes_code":` + quoted + `}`
		response := withMember(s.leastResponse(), "error", failed)
		out.Bytes = s.appendFailure(out.Bytes, "response.failed", `,"response":`+string(response)+`,"sequence_number":0`)
	}
	s.code, s.failedByUs = contract.CodeAgentError, true
	s.end()
}

// isRateLimit has the codes that say that the request may be sent again later.
var isRateLimit = map[string]bool{
	"rate_limit_exceeded": true, contract.CodeQueueFull: true, contract.CodeQueueTimeout: true,
}
