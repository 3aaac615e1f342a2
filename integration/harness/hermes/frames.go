package hermes

import (
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Frames writes the frames of a chat's stream.
type Frames struct {
	W  http.ResponseWriter
	ID string // of the completion
}

// Head returns the first members of a chunk.
func (f *Frames) Head() string {
	return `"id": "` + f.ID + `", "object": "chat.completion.chunk", "created": 1795164799, "model": "hermes-agent"`
}

// Delta writes a chunk with a text in a member of its delta.
func (f *Frames) Delta(member, text string) {
	f.Write(fmt.Sprintf(`data: {%s, "choices": [{"index": 0, "delta": {"%s": %s}, "finish_reason": null}]}`, f.Head(), member, ASCII(text)))
}

// Event writes an event.
func (f *Frames) Event(name, data string, args ...any) {
	f.Write("event: "+name, "data: "+fmt.Sprintf(data, args...))
}

// Write writes a frame of these lines, and flushes.
func (f *Frames) Write(lines ...string) {
	io.WriteString(f.W, strings.Join(lines, "\n")+"\n\n")
	f.W.(http.Flusher).Flush()
}
