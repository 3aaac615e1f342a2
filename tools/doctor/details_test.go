package doctor

import (
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/details"
)

// TestDetails says whether the sidecar can learn what tools were given and returned, from the agent that
// is asked for the session of its own answer.
func TestDetails(t *testing.T) {
	const session = "/api/sessions/api-c0bca4f70ca6ef85/messages"
	rows, err := os.ReadFile("../../testdata/sessions/v0.22.2-completed.json")
	if err != nil {
		t.Fatal(err)
	}
	list := status(200, "Content-Type", "application/json", string(rows))
	for name, c := range map[string]struct {
		dir       string // of recordings
		answer    http.HandlerFunc
		late      time.Duration
		level     Level
		says, why string
	}{
		"rows":                  {"g3-v0.20.3", list, 0, OK, "the arguments and results of tools are available: the session of the answer has 5 rows", ""},
		"rows that are late":    {"g3-v0.20.3", list, detailsWait + time.Millisecond, Warn, "the session of the answer arrived after 301ms", "300ms at most"},
		"a release before 0.18": {"g2-v0.13.0", list, 0, Info, "this Hermes stores the arguments and results of tools when the turn ends", "0.18"},
		"no such path":          {"g3-v0.20.3", http.NotFound, 0, Info, "the session of the answer is not available (status 404)", "older than 0.16"},
		"no such session":       {"g3-v0.20.3", status(404, "", "", `{"error": {"message": "no session `+"\x1b"+`"}}`), 0, Info, "the session of the answer is not available (status 404", ""},
		"another key":           {"g3-v0.20.3", status(401, "", "", `{"error": {"message": "not you, `+key+`"}}`), 0, Warn, "this key may not read sessions (status 401: “not you, [redacted]”)", "with the key of the client"},
		"no right":              {"g3-v0.20.3", status(403, "", "", ""), 0, Warn, "this key may not read sessions (status 403)", ""},
		"an error":              {"g3-v0.20.3", status(500, "", "", ""), 0, Warn, "the session of the answer is not available (status 500)", "log"},
		"a page":                {"g3-v0.20.3", status(200, "Content-Type", "text/html", "<html>"), 0, Warn, "the answer for the session is not a list", ""},
		"another list":          {"g3-v0.20.3", status(200, "", "", `{"data": {}}`), 0, Warn, "the answer for the session is not a list", ""},
		"a break":               {"g3-v0.20.3", abort, 0, Warn, "the session of the answer cannot be read: ", ""},
		"more than is read": {"g3-v0.20.3", func(w http.ResponseWriter, _ *http.Request) {
			for range 5 << 10 {
				io.WriteString(w, strings.Repeat(" ", 1<<10))
			}
		}, 0, Warn, "the session of the answer is larger than 4 MiB", ""},
	} {
		var asked atomic.Bool
		var late atomic.Int64
		f := &fake{dir: c.dir, scenario: "plain", key: key, serve: map[string]http.HandlerFunc{}}
		f.serve[session] = func(w http.ResponseWriter, r *http.Request) {
			asked.Store(true)
			late.Store(int64(c.late))
			if r.URL.RawQuery != details.Query() || r.Header.Get("Authorization") != "Bearer "+key {
				t.Errorf("%s: it is asked %s, with %v", name, r.URL, r.Header)
			}
			c.answer(w, r)
		}
		f.serve[chatPath] = func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(sessionHeader, "api-c0bca4f70ca6ef85")
			events(nil, chunkWith(`"delta": {"content": "pong"}, "finish_reason": "stop"`), "data: [DONE]\n\n")(w, r)
		}
		d := testDoctor(f.start(t), key)
		d.ask, d.now = true, func() time.Time { return time.Unix(0, late.Load()) }
		a := d.examined(t)
		a.expect(t, name, "details", c.level, c.says)
		if got := a.finding("details"); !strings.Contains(got.Why, c.why) || !asked.Load() {
			t.Errorf("%s: %+v", name, got)
		}
		if bad := unfit(t, a); len(bad) > 0 {
			t.Errorf("%s: has %q", name, bad)
		}
	}

	// Without a session there is nothing to ask for, nor without --ask.
	f := &fake{dir: "g3-v0.20.3", key: key, serve: map[string]http.HandlerFunc{
		chatPath: events(nil, chunkWith(`"delta": {"content": "pong"}, "finish_reason": "stop"`), "data: [DONE]\n\n"),
	}}
	d := testDoctor(f.start(t), key)
	if got := d.examined(t).finding("details"); got.Check != "" {
		t.Errorf("%+v", got)
	}
	d.ask = true
	d.examined(t).expect(t, "no session", "details", Info, "the answer names no session")
	if seen, _ := f.requests(); slices.ContainsFunc(seen, func(s string) bool { return strings.Contains(s, "sessions") }) {
		t.Errorf("it asks %q", seen)
	}
}
