package chat

import (
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/marker"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// feed gives the frames to a stream, and returns what leaves, with its end.
func feed(frames ...string) string {
	var s Stream
	var out sse.Writer
	s.Init(&out, &contract.Options{Tools: marker.Hermes}, &contract.Params{}, nil)
	for _, frame := range frames {
		s.Unit(sse.UnitFrame)
		x := s.Object()
		x.Edits.Reset()
		x.F.Parse([]byte(frame))
		s.Frame()
	}
	s.Object().F.Parse(nil) // a tail that is empty
	s.Finish(contract.CodeIncomplete)
	return string(out.Take())
}

// What decides about held text need not be a chunk: its members are not where those of the
// held one are.
func TestHeldTextIsDecidedByWhatIsNoChunk(t *testing.T) {
	held := `data: {"id":"c","choices":[{"index":0,"delta":{"content":"` + "`💻" + `"},"finish_reason":null}],"usage":null}` + "\n\n"
	for name, frames := range map[string][]string{
		"the end": {held},
		"[DONE]":  {held, "data: [DONE]\n\n"},
		"no JSON": {held, "data: x\n\n"},
	} {
		if got := feed(frames...); !strings.HasPrefix(got, held) || !strings.HasSuffix(got, "data: [DONE]\n\n") {
			t.Errorf("%s: %q", name, got)
		}
	}
}
