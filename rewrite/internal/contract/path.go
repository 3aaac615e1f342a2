package contract

import "strings"

// IsChatPath reports whether the path of a request is one for chat completions:
// its answer is one whatever it looks like (contract section 0).
func IsChatPath(path string) bool { return strings.HasSuffix(path, "/chat/completions") }

// IsResponsesPath reports whether the path of a request is one for a response of
// /v1/responses.
func IsResponsesPath(path string) bool { return strings.HasSuffix(path, "/v1/responses") }

// RunOfPath returns the id of the run whose events the path of a request asks
// for, which ends in /runs/{id}/events; "" for another path.
func RunOfPath(path string) string {
	rest, ok := strings.CutSuffix(path, "/events")
	i := strings.LastIndexByte(rest, '/')
	if !ok || i < 0 || !strings.HasSuffix(rest[:i], "/runs") {
		return ""
	}
	return rest[i+1:]
}

// SessionOfPath returns the id of the session in which the path of a request begins a
// stream, which ends in /api/sessions/{id}/chat/stream; "" for another path.
func SessionOfPath(path string) string {
	rest, ok := strings.CutSuffix(path, "/chat/stream")
	i := strings.LastIndexByte(rest, '/')
	if !ok || i < 0 || !strings.HasSuffix(rest[:i], "/api/sessions") {
		return ""
	}
	return rest[i+1:]
}
