package rewrite

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestRefuseInAllForms: the error of an answer ends the stream of a client that waits, with one error
// and without secrets.
func TestRefuseInAllForms(t *testing.T) {
	const key = "sk-abcdefghijklmnopqrstuvwxyz0123456789"
	for name, c := range map[string]struct {
		o        Options
		p        Params
		body     string
		has, not string // words
	}{
		"split":    {Options{}, Params{Active: true}, `{"error":{"message":"no ` + key + `"}}`, `event:|hermes.card "done":true,"hidden":true "finish_reason":"error" [DONE] data:|{"error": "code":"agent_error"`, key},
		"no line":  {Options{NoStatusLine: true}, Params{Active: true}, `{"error":{"message":"no"}}`, `[DONE]`, "hidden event:"},
		"bare":     {Options{Progress: ProgressBare}, Params{Active: true}, `{"error":{"message":"no"}}`, `[DONE]`, "hidden event:"},
		"unnamed":  {Options{}, Params{Active: true, Progress: ProgressUnnamed}, `{"error":{"message":"no"}}`, `"hidden":true [DONE]`, "event:|"},
		"inline":   {Options{ErrorFinish: ErrorFinishInline}, Params{Active: true}, `{"error":{"message":"no ` + key + `"}}`, `"finish_reason":"error"}],"error":{ [DONE]`, key + ` data:|{"error"`},
		"response": {Options{}, Params{Responses: true}, `{"error":{"message":"no ` + key + `","code":"` + key + `"}}`, `response.failed server_error "sequence_number":0`, key},
		"limit":    {Options{}, Params{Responses: true}, `{"error":{"message":"no","code":"rate_limit_exceeded"}}`, `"code":"rate_limit_exceeded"`, "server_error"},
		"cut":      {Options{}, Params{Responses: true}, `{"error":"` + strings.Repeat("x", maxMessage-22) + ` https://user:hunter2000@host/path"}`, `https://user:[`, "hunter"},
		"session":  {Options{}, Params{SessionID: "s"}, `{"error":"no ` + key + `"}`, `event:|error event:|done "seq":|2`, key},
	} {
		w := NewWaitingFrames(&c.o, &c.p)
		b, ok := w.Refuse([]byte("before|"), []byte(c.body))
		got, found := strings.CutPrefix(string(b), "before|")
		if !ok || !found || !strings.HasSuffix(got, "\n\n") {
			t.Fatalf("%s: %q, %t", name, b, ok)
		}
		for word := range strings.FieldsSeq(c.has) {
			if !strings.Contains(got, strings.ReplaceAll(word, "|", " ")) {
				t.Errorf("%s: %q is not in %s", name, word, got)
			}
		}
		for word := range strings.FieldsSeq(c.not) {
			if strings.Contains(got, strings.ReplaceAll(word, "|", " ")) {
				t.Errorf("%s: %q is in %s", name, word, got)
			}
		}
	}
}

// TestRefuseSaysNothing of what is no error, or larger than a frame.
func TestRefuseSaysNothing(t *testing.T) {
	small := Options{MaxFrame: 300}
	for _, c := range []struct {
		o    *Options
		body string
	}{
		{&Options{}, ""}, {&Options{}, "{}"}, {&Options{}, "[]"}, {&Options{}, `{"error":null}`}, {&Options{}, `{"error":""}`},
		{&Options{}, `{"error":{"code":"x"}}`}, {&Options{}, `{"error":{"message":1}}`}, {&Options{}, `{"error":{"message":"x"}`},
		{&Options{}, `{"error":["x"]}`}, {&small, `{"error":{"message":"` + strings.Repeat("x", 300) + `"}}`},
	} {
		w := NewWaitingFrames(c.o, &Params{Active: true})
		if got, ok := w.Refuse([]byte("a"), []byte(c.body)); ok || string(got) != "a" {
			t.Errorf("%q: %q, %t", c.body, got, ok)
		}
	}
}

// FuzzWaiting: whatever upstream says to a request that has waited, a stream continues it as if it had
// not, and an error ends it with the last events of its API, each of which is JSON on one line.
func FuzzWaiting(f *testing.F) {
	for i, body := range []string{
		`{"error": {"message": "Too many concurrent runs (max 10)", "type": "rate_limit_error", "param": null, "code": "rate_limit_exceeded"}}`,
		"{\r\n\"error\": \"no\"\r\n}", `{"error":{"message":"a\nb","code":"\u000a\n"}}`, `{"error":{"message":"x","message":2}} {`, "{\"error\":{\"message\":\"\xff\u2028\"},\"error\":\"y\"}",
		"\xef\xbb\xbf" + role() + text("a") + stop(), "\xef\xbb\xbf: hello\n\nevent: x\ndata: 1\n\n", created(3, "") + outputDelta(4),
	} {
		f.Add([]byte(body), []byte{3, 200}, byte(i))
	}
	f.Fuzz(func(t *testing.T, said, cuts []byte, kind byte) {
		o := Options{ErrorFinish: []ErrorFinish{ErrorFinishSplit, ErrorFinishInline}[kind/3%2], NoStatusLine: kind/6%2 == 0}
		p := []Params{{Active: true, ID: chatParams.ID}, {Responses: true}, {SessionID: "s"}}[kind%3]
		last := []string{doneFrame, `"response":{`, "event: done\n"}[kind%3]

		continues := p
		continues.Continues = true
		want, _ := run(strings.TrimPrefix(string(said), "\xef\xbb\xbf"), o, p, byScript(cuts), CauseEOF)
		whole, _ := run(string(said), o, continues, byScript(cuts), CauseEOF)
		same(t, whole, want, "a stream that continues")

		w := NewWaitingFrames(&o, &p)
		out, ok := w.Refuse([]byte("before"), said)
		got, found := strings.CutPrefix(string(out), "before")
		if !found || !ok && got != "" {
			t.Fatalf("%t, %q", ok, out)
		}
		if !ok {
			return
		}
		if !strings.Contains(got[strings.LastIndex(strings.TrimSuffix(got, "\n\n"), "\n\n")+1:], last) || !strings.HasSuffix(got, "\n\n") {
			t.Errorf("it ends in %q", got)
		}
		for frame := range strings.SplitSeq(strings.TrimSuffix(got, "\n\n"), "\n\n") {
			for line := range strings.SplitSeq(frame, "\n") {
				data, ok := strings.CutPrefix(line, "data: ")
				if !ok && !strings.HasPrefix(line, "event: ") || strings.Contains(line, "\r") || ok && data != "[DONE]" && !json.Valid([]byte(data)) {
					t.Errorf("a line %q of %q", line, got)
				}
			}
		}
	})
}
