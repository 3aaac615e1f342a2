package rewrite

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
)

const sessionID = "sess_3f9c2a"

var sessionParams = Params{SessionID: sessionID, Created: 1795165000}

// sessionStreams returns streams of sessions by name.
func sessionStreams(t testing.TB) map[string]string {
	t.Helper()
	streams := map[string]string{}
	for _, dir := range []string{"../testdata/written", captures + "/live-g3-v0.19.0"} {
		paths, err := filepath.Glob(dir + "/session.*.sse")
		if err != nil || len(paths) == 0 {
			t.Fatalf("%v, %d streams of sessions in %s", err, len(paths), dir)
		}
		for _, path := range paths {
			streams[filepath.Base(path)] = readFile(t, path)
		}
	}
	return streams
}

// sessionFrame is a frame of a session as Hermes writes it, with its own members.
func sessionFrame(name, own string, seq int) string {
	if own != "" {
		own += ", "
	}
	return named(name, fmt.Sprintf(`{%s"session_id": "sess_1", "run_id": "run_1", "seq": %d, "ts": 1795165131.%d}`, own, seq, seq))
}

// sessionEnd returns what a stream of a session lacks after these frames.
func sessionEnd(t testing.TB, frames []string, cause Cause) string {
	t.Helper()
	type event struct {
		MessageID json.RawMessage `json:"message_id"`
		ToolName  json.RawMessage `json:"tool_name"`
		SessionID json.RawMessage `json:"session_id"`
		RunID     json.RawMessage `json:"run_id"`
		Seq       int             `json:"seq"`
		TS        json.Number     `json:"ts"`
	}
	last := event{SessionID: jsonspan.Quote(sessionID), TS: "1795165000"}
	var open []event
	failed := false
	for _, f := range frames {
		if f == "" || strings.HasPrefix(f, ":") {
			continue
		}
		head, data, _ := strings.Cut(f, "\ndata: ")
		var e event
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatalf("%v in %q", err, f)
		}
		last = e
		switch head {
		case "event: tool.started":
			open = append(open, e)
		case "event: tool.completed", "event: tool.failed":
			for i := range open {
				if string(open[i].ToolName) == string(e.ToolName) {
					open = append(open[:i], open[i+1:]...)
					break
				}
			}
		case "event: error":
			failed = true
		}
	}
	var b strings.Builder
	write := func(name, own string) {
		last.Seq++
		run := ""
		if last.RunID != nil {
			run = `"run_id": ` + string(last.RunID) + ", "
		}
		fmt.Fprintf(&b, "event: %s\ndata: {%s\"session_id\": %s, %s\"seq\": %d, \"ts\": %s}\n\n", name, own, last.SessionID, run, last.Seq, last.TS)
	}
	for _, e := range open {
		write("tool.completed", fmt.Sprintf(`"message_id": %s, "tool_name": %s, "preview": null, "args": null, `, e.MessageID, e.ToolName))
	}
	if !failed {
		write("error", `"message": `+string(jsonspan.Quote(Message(cause.Code())))+", ")
	}
	write("done", "")
	return b.String()
}

func TestSessionsThatAreCompletePassByteForByte(t *testing.T) {
	for name, body := range sessionStreams(t) {
		_, id, _ := strings.Cut(body, `"run_id": "`)
		id, _, _ = strings.Cut(id, `"`)
		for framing, in := range reframed(body) {
			for _, cause := range causes {
				for _, cut := range []cutter{inOne, oneByte, atRandom(3, 99)} {
					out, sum := run(in, Options{}, sessionParams, cut, cause)
					same(t, out, in, name+" in "+framing+": bytes")
					want := ""
					if name == "session.error.sse" {
						want = CodeAgentError
					}
					if sum.Code != want || sum.ID != id {
						t.Errorf("%s: %+v", name, sum)
					}
				}
			}
		}
	}
}

// A stream cut at any byte gets the ends of its open tools, an error and done after
// what was complete; once it has had its own done it passes as it is.
func TestSessionsCutAnywhere(t *testing.T) {
	for name, body := range sessionStreams(t) {
		for i := 0; i < len(body); i += cutStride {
			in := body[:i]
			n := strings.LastIndex(in, "\n\n") + 2
			if n == 1 {
				n = 0
			}
			rest := strings.TrimSuffix(in[n:], "\n")
			if at := strings.Index(rest, "data: "); at >= 0 && json.Valid([]byte(rest[at+6:])) { // which lacks its blank line
				n = i
			}
			complete := strings.TrimRight(in[:n], "\n")
			ended := strings.Contains(complete, "event: done")
			if complete != "" {
				complete += "\n\n"
			}
			comment := ""
			if in[n:] == ": keepalive\n" { // a comment leaves line by line
				comment = in[n:]
			}
			for _, cause := range []Cause{CauseEOF, causes[1+i%3]} {
				want := complete + comment
				switch {
				case ended && cause == CauseEOF:
					want = in
				case !ended:
					want += sessionEnd(t, strings.Split(complete, "\n\n"), cause)
				}
				out, sum := run(in, Options{}, sessionParams, atRandom(uint64(i), 99), cause)
				same(t, out, want, fmt.Sprintf("%s cut at %d with cause %d: bytes", name, i, cause))
				code := cause.Code()
				if strings.Contains(complete, "event: error") {
					code = CodeAgentError
				}
				if !ended && sum.Code != code {
					t.Errorf("%s cut at %d: %+v, want %s", name, i, sum, code)
				}
				again, _ := run(out, Options{}, sessionParams, oneByte, CauseEOF)
				same(t, again, out, "outputs of a second sidecar")
				if t.Failed() {
					return
				}
			}
		}
	}
}

func TestSessionsInEveryFramingAndCut(t *testing.T) {
	body := sessionStreams(t)["session.tools.sse"]
	cut := strings.LastIndex(body, "event: tool.failed") + 40
	for framing, in := range reframed(body[:cut]) {
		for _, o := range []Options{{}, {MaxFrame: 300}, {MaxFrame: 20}} {
			want, wantSum := run(in, o, sessionParams, inOne, CauseAborted)
			if o.MaxFrame == 0 && (strings.Count(want, `"preview": null`) != 3 || strings.Count(want, "event: error") != 1 || wantSum.Code != CodeAborted) {
				t.Errorf("%s: %+v, %s", framing, wantSum, want[cut:])
			}
			for i := 0; i <= len(in); i += cutStride {
				s := New(&o, sessionParams)
				out := s.Feed(nil, []byte(in[:i]), epoch)
				out = s.Feed(out, []byte(in[i:]), epoch)
				same(t, string(s.Finish(out, CauseAborted)), want, framing+": outputs")
				if s.Summary() != wantSum {
					t.Errorf("summary %+v, want %+v", s.Summary(), wantSum)
				}
				if t.Failed() {
					return
				}
			}
		}
	}
}

func TestEndOfASession(t *testing.T) {
	const incomplete = `"message": "the agent's answer ended before it was complete"`
	end := func(seq int) string {
		return sessionFrame("error", incomplete, seq) + strings.Replace(sessionFrame("done", "", seq+1), fmt.Sprintf("131.%d}", seq+1), fmt.Sprintf("131.%d}", seq), 1)
	}
	at := func(frames string, ts int) string { // with the time of the last event
		for i := range 20 {
			frames = strings.ReplaceAll(frames, fmt.Sprintf(`"ts": 1795165131.%d}`, i), fmt.Sprintf(`"ts": 1795165131.%d}`, ts))
		}
		return frames
	}
	started := func(tool, message string, seq int) string {
		return sessionFrame("tool.started", message+`"tool_name": "`+tool+`", "preview": "x", "args": {}`, seq)
	}
	completed := func(tool, message string, seq int) string {
		return sessionFrame("tool.completed", message+`"tool_name": "`+tool+`", "preview": null, "args": null`, seq)
	}
	const m1, m2 = `"message_id": "m1", `, `"message_id": "m2", `
	for name, c := range map[string]struct{ in, want, code string }{
		"nothing open": {sessionFrame("assistant.delta", `"delta": "a"`, 7), at(end(8), 7), CodeIncomplete},
		"tools of one name": {
			started("t", m1, 1) + started("t", m2, 2) + started("u\\u0061", m2, 3) + completed("t", m2, 4),
			at(completed("t", m2, 5)+completed("u\\u0061", m2, 6)+end(7), 4), CodeIncomplete},
		"a tool that failed":                      {started("t", m1, 1) + strings.Replace(completed("t", m1, 2), "completed", "failed", 1), at(end(3), 2), CodeIncomplete},
		"a tool without a message":                {started("t", "", 1), at(completed("t", "", 2)+end(3), 1), CodeIncomplete},
		"an error":                                {started("t", m1, 1) + sessionFrame("error", `"message": "boom"`, 2), at(completed("t", m1, 3)+sessionFrame("done", "", 4), 2), CodeAgentError},
		"an end that was completed, but for done": {sessionFrame("run.completed", m1+`"completed": true`, 3), at(end(4), 3), CodeIncomplete},
		"[DONE] instead":                          {sessionFrame("assistant.delta", `"delta": "a"`, 1) + "\x00", at(end(2), 1) + doneFrame, CodeIncomplete},
		"no numbers":                              {named("assistant.delta", `{"delta": "a"}`), strings.NewReplacer("sess_1", sessionID, `"run_id": "run_1", `, "", "1795165131.1", "1795165000").Replace(at(end(1), 1)), CodeIncomplete},
		"an error of a proxy's": {sessionFrame("assistant.delta", `"delta": "a"`, 1) + `data: {"error": {"message": "overloaded"}}` + "\n\n",
			strings.Replace(at(end(2), 1), incomplete, `"message": "overloaded"`, 1), CodeAgentError},
		"a name that is no JSON": {started("\\x", m1, 1) + started("t", `"message_id": "\x", `, 2), at(end(3), 2), CodeIncomplete},
		"a run that failed":      {sessionFrame("run.failed", m1+`"failed": true`, 1) + sessionFrame("done", "", 2), "", CodeAgentError},
		"a done that is no JSON": {"event: done\ndata: ok\n\n", "", ""},
	} {
		for _, cut := range []cutter{inOne, oneByte} {
			in := strings.TrimSuffix(c.in, "\x00")
			fed := in
			if in != c.in {
				fed += doneFrame
			}
			out, sum := run(fed, Options{}, sessionParams, cut, CauseEOF)
			same(t, out, in+c.want, name+": bytes")
			if sum.Code != c.code {
				t.Errorf("%s: %+v, want %s", name, sum, c.code)
			}
			again, _ := run(out, Options{}, sessionParams, cut, CauseEOF)
			same(t, again, out, name+": outputs of a second sidecar")
		}
	}
}

// TestSessionsOnOtherPathsPass: a session is known by its path.
func TestSessionsOnOtherPathsPass(t *testing.T) {
	for path, id := range map[string]string{
		"/api/sessions/s1/chat/stream": "s1", "/p/coder/api/sessions/s1/chat/stream": "s1", "/x/p/a/api/sessions/s1/chat/stream": "s1",
		"/api/sessions/s1/chat": "", "/api/sessions/chat/stream": "", "/api/sessions//chat/stream": "", "/api/sessions/a/b/chat/stream": "", "/chat/stream": "", "": "",
		"/v1/sessions/s1/chat/stream": "", "/api/sessions/s1/chat/stream/": "",
	} {
		if got := SessionOfPath(path); got != id {
			t.Errorf("%s: %q, want %q", path, got, id)
		}
	}
	in := sessionStreams(t)["session.tools.sse"][:900]
	out, sum := run(in, Options{}, Params{}, oneByte, CauseAborted)
	same(t, out, in, "bytes")
	if sum.Code != "" {
		t.Errorf("%+v", sum)
	}
}

// The beginning of an event that is larger than max_frame says which tool it starts.
func TestLargeEventsOfASession(t *testing.T) {
	o := Options{MaxFrame: 400}
	big := strings.Repeat("x", 1000)
	in := sessionFrame("run.started", "", 1) + sessionFrame("tool.started", `"message_id": "m", "tool_name": "write_file", "preview": null, "args": {"content": "`+big+`"}`, 2)
	for _, cut := range []cutter{inOne, oneByte, atRandom(1, 700)} {
		out, _ := run(in, o, sessionParams, cut, CauseAborted)
		rest := strings.TrimPrefix(out, in)
		if !strings.HasPrefix(rest, "event: tool.completed\ndata: {\"message_id\": \"m\", \"tool_name\": \"write_file\", ") || !strings.Contains(rest, `"seq": 3`) || !strings.HasSuffix(rest, "event: done\ndata: {\"session_id\": \"sess_1\", \"run_id\": \"run_1\", \"seq\": 5, \"ts\": 1795165131.1}\n\n") {
			t.Errorf("got %q", rest)
		}
		whole := in + sessionFrame("error", `"message": "`+big+`"`, 3)
		out, _ = run(whole, o, sessionParams, cut, CauseAborted)
		if rest = strings.TrimPrefix(out, whole); strings.Contains(rest, "event: error") || strings.Count(rest, "event:") != 2 {
			t.Errorf("got %q", rest)
		}
		if _, sum := run(whole+sessionFrame("done", "", 4), o, sessionParams, cut, CauseEOF); sum.Code != CodeAgentError {
			t.Errorf("%+v", sum)
		}
	}
}

// What open tools hold is bounded like that of a chat's; the one that started first is
// forgotten.
func TestOpenToolsOfASessionAreBounded(t *testing.T) {
	for name, c := range map[string]struct{ tools, size, most int }{
		"many":       {100000 / cutStride, 10, maxOpenTools},
		"long names": {100, 60 << 10, maxOpenBytes / (60 << 10)},
		"too long":   {3, maxOpenBytes + 1, 0},
	} {
		s := New(&Options{}, sessionParams)
		got := held(s, c.tools, func(i int) string {
			return sessionFrame("tool.started", fmt.Sprintf(`"message_id": "m", "tool_name": "%s%d"`, strings.Repeat("t", c.size), i), i+1)
		}, nil)
		checkHeld(t, got, maxOpenBytes+maxOpenTools*100+4*maxIdleBuffer)
		out := string(s.Finish(nil, CauseEOF))
		if n := strings.Count(out, "tool.completed"); n != c.most || c.most > 0 && !strings.Contains(out, fmt.Sprintf(`t%d"`, c.tools-1)) {
			t.Errorf("%s: %d ends, want %d", name, n, c.most)
		}
	}
}

func TestSessionsCostNoAllocations(t *testing.T) {
	s := New(&Options{}, sessionParams)
	in := []byte(sessionFrame("assistant.delta", `"message_id": "m", "delta": "a"`, 1))
	out := s.Feed(make([]byte, 0, 1<<12), in, epoch)
	if n := testing.AllocsPerRun(100, func() { out = s.Feed(out[:0], in, epoch) }); n > 0 {
		t.Errorf("%v allocations for each frame", n)
	}
}
