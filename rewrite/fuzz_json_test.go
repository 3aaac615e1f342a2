package rewrite

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/redact"
)

// FuzzJSON: whatever the data is, nothing panics, what is no JSON leaves as it
// is, what is JSON leaves as JSON, and a frame that is not touched leaves byte
// for byte.
func FuzzJSON(f *testing.F) {
	fuzzSeeds(f, func(body string) {
		for i, e := range decode(body) {
			f.Add(e.data, byte(i), byte(i))
		}
	})
	f.Add(`{"choices":[{"index":0,"delta":{"content":"\n\u0060\ud83d\udcbb x\u0060\n"}}`, byte(0), byte(0))
	f.Add(`{"error":{"message":"x"},"choices":[{"finish_reason":"error"}]}`, byte(1), byte(0))
	f.Add(`{"tool":{},"toolCallId":"x","status":3}`, byte(1), byte(1))
	f.Add(`{ }`, byte(2), byte(2))
	f.Add(`{"choices":null}`, byte(2), byte(2))
	f.Fuzz(func(t *testing.T, data string, name, options byte) {
		if strings.ContainsAny(data, "\r\n") || strings.TrimSpace(data) == "[DONE]" {
			return
		}
		all := allOptions()
		o := all[int(options)%len(all)]
		frame := "data: " + data + "\n\n"
		names := []string{"", "hermes.tool.progress", "hermes.status", "message"}
		if n := names[int(name)%len(names)]; n != "" {
			frame = "event: " + n + "\n" + frame
		}
		s := New(&o, chatParams)
		out := s.Feed(nil, []byte(role()), epoch)
		first := len(out)
		out = s.Feed(out, []byte(frame), epoch)
		middle := string(out[first:])
		out = s.Finish(out, CauseEOF)
		if !json.Valid([]byte(data)) {
			want := frame
			if strings.HasPrefix(frame, "event: hermes.status") { // it tells of the agent's state
				want = frame[:len(frame)-len(data)-2] + string(redact.Text([]byte(data))) + "\n\n"
			}
			same(t, middle, want, "bytes of what is no JSON")
			return
		}
		for _, e := range decode(progressComments(string(out))) {
			if e.data != "[DONE]" && !json.Valid([]byte(e.data)) {
				t.Errorf("an event has data that is no JSON: %q", e.data)
			}
		}
		if !strings.HasSuffix(string(out), doneFrame) {
			t.Errorf("the stream does not end with [DONE]: %q", clip(string(out), len(out)))
		}
		untouched := !strings.Contains(frame, "event:") && !strings.Contains(data, "finish_reason") && !strings.Contains(data, "tool") &&
			!strings.Contains(data, "error") && !strings.ContainsAny(data, "`\\")
		if untouched {
			same(t, middle, frame, "bytes of what needs no change")
		}
	})
}
