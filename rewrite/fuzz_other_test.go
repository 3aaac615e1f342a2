package rewrite

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

// FuzzOther: any bytes after the beginning of a stream of another kind, cut in
// any two ways, give the same bytes. Upstream's complete events leave as they
// came, at most one failed event is added, which is well formed, and a second
// sidecar adds nothing.
func FuzzOther(f *testing.F) {
	n := 0
	for _, r := range others(f) {
		n++
		for _, at := range []int{len(r.body), len(r.body) * 2 / 3, len(r.body) / 2} {
			body := r.body[:at]
			switch n % 4 {
			case 1:
				body = strings.ReplaceAll(body, "\n", "\r\n")
			case 2:
				body = strings.ReplaceAll(body, "\n", "\r")
			case 3:
				body = "\ufeff" + body
			}
			f.Add([]byte(body), []byte{0}, []byte{200, 3, 17}, byte(n), byte(n*9%30))
		}
	}
	f.Add([]byte(created(3, responseOfTests)+named("error", `{"type":"error","message":"x"}`)+doneFrame+outputDelta(4)), []byte{1}, []byte{90}, byte(1), byte(0))
	f.Add([]byte(created(3, ` "a" : {"status":1} , "error":null`)+"data: {\"type\":\"response.x\",\r\ndata:\"sequence_number\":9}\r\n\r"), []byte{1}, []byte{90}, byte(1), byte(0))
	f.Add([]byte(runEvent("run.x", `,"timestamp":1e5`)+"data: [DONE]"), []byte{1}, []byte{90}, byte(0), byte(0))
	f.Fuzz(func(t *testing.T, in, a, b []byte, cause, limit byte) {
		o := Options{MaxFrame: int(limit) * 16}
		how := Cause(cause % 4)
		p := otherParams(string(in))
		p.ID = chatParams.ID
		s := New(&o, p)
		fed := string(feedAll(s, string(in), byScript(a)))
		want := string(s.Finish([]byte(fed), how))
		got, sum := run(string(in), o, p, byScript(b), how)
		same(t, got, want, "outputs of two cuts")
		if wantSum := s.Summary(); sum != wantSum {
			t.Errorf("summaries of two cuts: %+v, %+v", sum, wantSum)
		}
		if s.Active() {
			return
		}
		if !s.Guarded() {
			same(t, got, string(in), "bytes of a foreign stream")
			return
		}
		again, _ := run(got, o, p, byScript(a), CauseEOF)
		if limit == 0 {
			same(t, again, got, "outputs of a second sidecar")
		}
		if strings.Count(got, redacted) > strings.Count(string(in), redacted) {
			return // the rest is redact.FuzzRedaction's
		}
		if !inside(s, "other", "failedByUs").Bool() {
			// A blank line may have been added to the last event.
			same(t, strings.TrimRight(got, "\r\n"), strings.TrimRight(string(in), "\r\n"), "bytes of a stream that is complete")
			return
		}
		checkFailedOnce(t, string(in), got, strings.Contains(got, `"type":"response.failed"`))
	})
}

// FuzzSessions: the same of the streams of sessions, whatever they have in them.
func FuzzSessions(f *testing.F) {
	for _, body := range sessionStreams(f) {
		for _, at := range []int{len(body), len(body) * 2 / 3, len(body) / 2} {
			f.Add([]byte(body[:at]), []byte{0}, []byte{200, 3, 17}, byte(at), byte(at%30))
			f.Add([]byte(strings.ReplaceAll(body[:at], "\n", "\r\n")), []byte{0}, []byte{9}, byte(at), byte(0))
		}
	}
	f.Fuzz(func(t *testing.T, in, a, b []byte, cause, limit byte) {
		o := Options{MaxFrame: int(limit) * 16}
		how := Cause(cause % 4)
		s := New(&o, sessionParams)
		fed := string(feedAll(s, string(in), byScript(a)))
		want := string(s.Finish([]byte(fed), how))
		got, sum := run(string(in), o, sessionParams, byScript(b), how)
		same(t, got, want, "outputs of two cuts")
		if wantSum := s.Summary(); sum != wantSum {
			t.Errorf("summaries of two cuts: %+v, %+v", sum, wantSum)
		}
		if s.Active() {
			return
		}
		if inside(s, "other", "failedByUs").Bool() && !strings.HasPrefix(got[strings.LastIndex(got, "\nevent: ")+1:], "event: done\ndata: {\"session_id\": ") && !strings.HasSuffix(strings.TrimSpace(got), "[DONE]") {
			t.Errorf("does not end with done: %q", got)
		}
		if limit == 0 {
			again, _ := run(got, o, sessionParams, byScript(a), CauseEOF)
			same(t, again, got, "outputs of a second sidecar")
		}
	})
}

// What stands before the data of an event of ours, and the last event of a stream if it is
// one of ours that ends a tool.
var (
	ownHead    = regexp.MustCompile(`id: \d+\n$`)
	ownToolEnd = regexp.MustCompile(`(id: \d+\n)?(event: response\.output_item\.\w+\n)?data: \{("event": "tool\.completed"|"type":"response\.output_item\.(added|done)")[^\r\n]*\}$`)
)

// checkFailedOnce checks that out is what came in up to where it was cut, the ends of open
// tools and one failed event.
func checkFailedOnce(t *testing.T, in, out string, responses bool) {
	t.Helper()
	start := `data: {"event": "run.failed", "run_id": "`
	if responses {
		start = `data: {"type":"response.failed","response":{`
	}
	i := strings.LastIndex(out, start)
	if i < 0 {
		t.Fatalf("no failed event in %q", out)
	}
	event, _, _ := strings.Cut(out[i:], "\n")
	if !json.Valid([]byte(strings.TrimPrefix(event, "data: "))) {
		t.Errorf("the failed event is no JSON: %q", event)
	}
	before := ownHead.ReplaceAllString(strings.TrimSuffix(out[:i], "event: response.failed\n"), "")
	for before = strings.TrimRight(before, "\r\n"); !strings.HasPrefix(in, before); { // the ends of open tools
		end := ownToolEnd.FindString(before)
		if end == "" {
			same(t, before, in, "bytes before the failed event")
			break
		}
		if data := end[strings.Index(end, "data: ")+len("data: "):]; !json.Valid([]byte(data)) {
			t.Errorf("the end of a tool is no JSON: %q", data)
		}
		before = strings.TrimRight(strings.TrimSuffix(before, end), "\r\n")
	}
	if strings.Count(before, start) != strings.Count(in[:min(len(in), len(before))], start) {
		t.Errorf("more than one failed event in %q", out)
	}
}
