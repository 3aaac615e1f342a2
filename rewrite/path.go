package rewrite

import "strings"

// IsChatPath reports whether the path of a request is one for chat completions. Its
// answer is a chat completion whatever it looks like (contract section 0).
func IsChatPath(path string) bool { return strings.HasSuffix(path, "/chat/completions") }

// IsResponsesPath reports whether the path of a request is one for a response of
// /v1/responses.
func IsResponsesPath(path string) bool { return strings.HasSuffix(path, "/v1/responses") }

// IsAnswerPath reports whether the path of a request is one whose answer, if it is not
// streamed, RepairAnswer may repair: that of chat completions, of /v1/responses with an id
// or without one, or of /api/sessions/{id}/chat.
func IsAnswerPath(path string) bool {
	return IsChatPath(path) || IsResponsesPath(path) || idIn(path, "/v1/responses", "") != "" || idIn(path, "/api/sessions", "/chat") != ""
}

// IsRunPath reports whether a POST to the path begins a run of the agent by one of OpenAI's APIs,
// or one of Hermes' that is like them: chat completions, responses or runs.
func IsRunPath(path string) bool {
	return IsChatPath(path) || IsResponsesPath(path) || IsRunsPath(path)
}

// BeginsRun reports whether a POST to the path begins a run of the agent, by any of Hermes'
// APIs: those of IsRunPath, and the chats of sessions.
func BeginsRun(path string) bool {
	return IsRunPath(path) || SessionOfPath(path) != "" || idIn(path, "/api/sessions", "/chat") != ""
}

// IsRunsPath reports whether a POST to the path begins a run whose events are read by other
// requests (RunOfPath).
func IsRunsPath(path string) bool { return strings.HasSuffix(path, "/v1/runs") }

// RunOfPath returns the id in a path that ends in /runs/{id}/events, which asks for the
// events of a run, or "" for any other path.
func RunOfPath(path string) string { return idIn(path, "/runs", "/events") }

// SessionOfPath returns the id in a path that ends in /api/sessions/{id}/chat/stream,
// which begins a stream in a session, or "" for any other path.
func SessionOfPath(path string) string { return idIn(path, "/api/sessions", "/chat/stream") }

func idIn(path, before, after string) string {
	rest, ok := strings.CutSuffix(path, after)
	i := strings.LastIndexByte(rest, '/')
	if !ok || i < 0 || !strings.HasSuffix(rest[:i], before) {
		return ""
	}
	return rest[i+1:]
}
