package rewrite

import "github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/whole"

// Opening returns the beginning of the conversation in body, the JSON of a request for chat
// completions: the texts of the system's messages and of the user's first message. It is the same
// for each turn of the conversation. ok is false if body is not well formed or has no messages.
func Opening(body []byte) (opening []byte, ok bool) { return whole.Opening(body) }

// SetPromptLine puts a line at the beginning of the system prompt in body, the JSON of a POST to
// path: of the messages of chat completions, or of the instructions of /v1/responses and /v1/runs. The
// line is printable ASCII without quotes and backslashes. Every other byte stays. The result is a copy;
// it is body itself if the prompt begins with that line, if the request continues one that has it,
// or if body is not well formed.
func SetPromptLine(path string, body []byte, line string) []byte {
	switch {
	case IsChatPath(path):
		return whole.SetLine(body, line)
	case IsRunPath(path):
		return whole.SetInstructions(body, line)
	}
	return body
}
