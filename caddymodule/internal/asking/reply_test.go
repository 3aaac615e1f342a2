package asking

import (
	"bytes"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/approval"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

const roleFrame = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":7,"model":"hermes-agent","choices":[{"index":0,"delta":{"role":"assistant"},"finish_reason":null}]}` + "\n\n"

// TestLateRepliesSaySo after the first chunk, wherever the stream is cut, and change nothing else.
func TestLateRepliesSaySo(t *testing.T) {
	const sentence = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":7,"model":"hermes-agent","choices":[{"index":0,"delta":{"content":"So \"it\" is.\n"},"finish_reason":null}]}` + "\n\n"
	numbered := "id: stream_a/1\n" + roleFrame
	rest := "event: hermes.tool.progress\ndata: {}\n\n" + roleFrame + "data: [DONE]\n\n"
	huge := "data: " + strings.Repeat("x", maxFirstChunk) + "\n\n"
	for in, want := range map[string]string{
		numbered + rest:                      numbered + sentence + rest,
		": keepalive\n\n" + rest:             ": keepalive\n\nevent: hermes.tool.progress\ndata: {}\n\n" + roleFrame + sentence + "data: [DONE]\n\n",
		huge + rest:                          huge + "event: hermes.tool.progress\ndata: {}\n\n" + roleFrame + sentence + "data: [DONE]\n\n",
		"data: {\"error\":{}}\n\ndata: [DON": "data: {\"error\":{}}\n\ndata: [DON",
		"":                                   "",
		`{"status":410}`:                     `{"status":410}`,
	} {
		for _, size := range []int{1, 7, 1000, len(in) + 1} {
			w := httptest.NewRecorder()
			l := &lateWriter{ResponseWriter: w, sentence: "So \"it\" is.\n", frames: sse.Scanner{MaxFrame: maxFirstChunk}}
			for part := range bytes.Lines([]byte(in)) {
				for len(part) > 0 {
					n := min(size, len(part))
					if wrote, err := l.Write(bytes.Clone(part[:n])); wrote != n || err != nil {
						t.Fatal(wrote, err)
					}
					part = part[n:]
				}
			}
			if err := l.end(); err != nil || w.Body.String() != want {
				t.Errorf("in parts of %d: %v, %.300q, want %.300q", size, err, w.Body, want)
			}
		}
	}
}

// TestOnlyLateRepliesSaySo.
func TestOnlyLateRepliesSaySo(t *testing.T) {
	for result, has := range map[approval.Result]bool{approval.Accepted: false, approval.AlreadyAnswered: true, approval.TooLate: true} {
		if got := sentences[result] != ""; got != has {
			t.Errorf("%v: %t", result, got)
		}
	}
}
