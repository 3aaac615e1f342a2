package hermes

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Role is the data line of the first chunk of every stream.
var Role = Delta("role", "assistant")

// Envelope begins the chunks that this package writes.
const Envelope = `{"id": "chatcmpl-5ec0de", "object": "chat.completion.chunk", "created": 1795164799, "model": "hermes-agent", `

// Delta returns a data line with one member in the delta, in ASCII as Hermes writes.
func Delta(member, value string) string {
	return "data: " + Envelope + fmt.Sprintf(`"choices": [{"index": 0, "delta": {"%s": %s}, "finish_reason": null}]}`, member, ASCII(value))
}

// Finish returns the data line of the last chunk, which says how many tokens were used.
func Finish(reason string, tokens int) string {
	return "data: " + Envelope + fmt.Sprintf(`"choices": [{"index": 0, "delta": {}, "finish_reason": "%s"}], `+
		`"usage": {"prompt_tokens": %d, "completion_tokens": 0, "total_tokens": %d}}`, reason, tokens, tokens)
}

// Running returns the lines of the event with which a tool of G2 starts.
func Running(tool, id string) []string {
	return []string{"event: hermes.tool.progress",
		fmt.Sprintf(`data: {"tool": "%s", "emoji": "\ud83d\udcbb", "label": "ls -la", "toolCallId": "%s", "status": "running"}`, tool, id)}
}

// Completed returns the lines of the event with which a tool of G2 ends.
func Completed(tool, id string) []string {
	return []string{"event: hermes.tool.progress", fmt.Sprintf(`data: {"tool": "%s", "toolCallId": "%s", "status": "completed"}`, tool, id)}
}

// ASCII returns a JSON string as Python's json.dumps writes it.
func ASCII(s string) string {
	quoted, _ := json.Marshal(s)
	var b strings.Builder
	for _, r := range string(quoted) {
		switch {
		case r < 0x80:
			b.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		}
	}
	return b.String()
}

// One returns the lines of a frame that has one.
func One(line string) []string { return []string{line} }

// Good returns the frames that end a stream well.
func Good() [][]string { return [][]string{One(Finish("stop", 56)), One("data: [DONE]")} }

// Quoted returns a JSON string as Go writes it.
func Quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}
