package agentapi

import (
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// frame returns what leaves for a frame of a stream of responses.
func frame(in string) string {
	var f sse.Frame
	var edits sse.Splice
	var out sse.Writer
	f.Parse([]byte(in))
	New(&contract.Params{Responses: true}, nil).Frame(&out, &f, &edits)
	return string(out.Take())
}

// Very many secrets of a text, whose rest is replaced as a whole, do not hide those of an error
// after it.
func TestSecretsOfATextAndOfAnErrorAfterIt(t *testing.T) {
	text := "Provider said: " + strings.Repeat("sk-abcdefghijkl ", 300)
	event := func(text, key string) string {
		return `data: {"type":"response.completed","sequence_number":1,"response":{"output":[{"type":"message","content":[` +
			`{"type":"output_text","text":"` + text + `"}]}],"error":{"message":"` + key + `"}},"error":"` + key + `"}` + "\n\n"
	}
	want := event(strings.ReplaceAll(text, "sk-abcdefghijkl", "[redacted]"), "[redacted]")
	if got := frame(event(text, "sk-abcdefghijkl")); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
