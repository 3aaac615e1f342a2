package integration

import (
	"encoding/json"
	"fmt"
	"strings"
)

// envelope opens the chunks of the crafted streams.
const envelope = `{"id": "chatcmpl-5ec0de", "object": "chat.completion.chunk", "created": 1795164799, "model": "hermes-agent", `

// delta is a data line with one member in the delta, written as Hermes writes:
// ASCII only.
func delta(member, value string) string {
	return "data: " + envelope + fmt.Sprintf(`"choices": [{"index": 0, "delta": {"%s": %s}, "finish_reason": null}]}`, member, ascii(value))
}

// finish is the data line of the last chunk, with so many tokens used.
func finish(reason string, tokens int) string {
	return "data: " + envelope + fmt.Sprintf(`"choices": [{"index": 0, "delta": {}, "finish_reason": "%s"}], `+
		`"usage": {"prompt_tokens": %d, "completion_tokens": 0, "total_tokens": %d}}`, reason, tokens, tokens)
}

// running and completed are the tool events of G2.
func running(tool, id string) []string {
	return []string{"event: hermes.tool.progress",
		fmt.Sprintf(`data: {"tool": "%s", "emoji": "\ud83d\udcbb", "label": "ls -la", "toolCallId": "%s", "status": "running"}`, tool, id)}
}

func completed(tool, id string) []string {
	return []string{"event: hermes.tool.progress", fmt.Sprintf(`data: {"tool": "%s", "toolCallId": "%s", "status": "completed"}`, tool, id)}
}

// ascii is a JSON string as Python's json.dumps writes it.
func ascii(s string) string {
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
