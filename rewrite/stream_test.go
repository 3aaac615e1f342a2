package rewrite

import (
	"fmt"
	"strings"
	"testing"
)

// What a chunk holds back is decided at the frame after it, which may be shorter than the
// chunk, and may come without a finish chunk.
func TestHeldTextOfAChunkWithUsageBeforeDone(t *testing.T) {
	const usage = `"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}`
	const chunk = `data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"%s"},"finish_reason":null}],` + usage + "}\n\n"
	for _, held := range []string{"<thin", "`💻 ls"} {
		in := role() + fmt.Sprintf(chunk, held)
		s := New(&Options{}, chatParams)
		out := string(s.Finish(s.Feed(nil, []byte(in+"data: [DONE]\n\n"), epoch), CauseEOF))
		if !strings.HasPrefix(out, in) {
			t.Errorf("%q becomes %q", in, out)
		}
	}
}
