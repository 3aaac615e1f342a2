package doctor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// asking returns a doctor that asks a Hermes whose chat requests are answered by a handler.
func asking(t testing.TB, chat http.HandlerFunc) *doctor {
	t.Helper()
	f := &fake{dir: "g3-v0.20.3", key: key, serve: map[string]http.HandlerFunc{chatPath: chat}}
	d := testDoctor(f.start(t), key)
	d.ask = true
	return d
}

// events answers with parts of an event stream, and then calls end unless it is nil.
func events(end http.HandlerFunc, parts ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // so that it sees the client leave
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		for _, part := range parts {
			io.WriteString(w, part)
			w.(http.Flusher).Flush()
		}
		if end != nil {
			end(w, r)
		}
	}
}

// silence sends nothing until the client leaves.
func silence(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

// TestChatRequest is one short question, as the help says.
func TestChatRequest(t *testing.T) {
	var asked atomic.Int64
	asking(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		var body map[string]any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body["stream"] != true || len(body) != 3 {
			t.Errorf("%v: %v", err, body)
		}
		if says := fmt.Sprint(body["messages"]); says != "[map[content:Reply with the single word: pong role:user]]" {
			t.Error(says)
		}
		if r.Method != "POST" || r.Header.Get("Authorization") != "Bearer "+key || r.Header.Get("Accept-Encoding") != "identity" {
			t.Errorf("%s %v", r.Method, r.Header)
		}
		abort(w, r) // and it is not sent again
	}).examined(t)
	if n := asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

// TestAnswersThatAreNoGoodStream are told, each with its cause.
func TestAnswersThatAreNoGoodStream(t *testing.T) {
	good := string(recorded(t, "agent-loop/g3-v0.20.3/plain"))
	failed := func(w http.ResponseWriter, r *http.Request) {
		(&fake{dir: "g3-v0.20.3"}).replay(w, "crash_after_text.sse")
	}
	compressed := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		events(nil)(w, r)
	}
	for name, c := range map[string]struct {
		chat http.HandlerFunc
		says string
	}{
		"an error": {status(500, "", "", `{"error": {"message": "boom with sk-0123456789abcdef0123"}}`),
			"the chat request was answered with status 500: “boom with [redacted]”"},
		"no stream":    {status(200, "Content-Type", "application/json", "{}"), "the answer is not an event stream: “application/json”"},
		"compressed":   {compressed, "the answer is compressed: “gzip”, although the request forbids it"},
		"nothing":      {events(nil), "the answer ended with an error, upstream_incomplete"},
		"no chunk":     {events(nil, "data: [DONE]\n\n"), "the answer ended with an error, upstream_incomplete"},
		"cut":          {events(abort, good[:len(good)/2]), "the answer ended with an error, upstream_aborted"},
		"a failed run": {failed, "the answer ended with an error, agent_error"},
		"silence":      {silence, "no answer within 100ms"},
	} {
		d := asking(t, c.chat)
		if name == "silence" {
			d.askTimeout = 100 * time.Millisecond
		}
		a := d.examined(t)
		a.expect(t, name, "answer", Fail, c.says)
		if a.Version != "0.20.3" || len(a.Repairs) == 0 {
			t.Errorf("%s: what was known is lost: %+v", name, a)
		}
	}
}

// TestBusyAgents are no fault: they admit no more runs, or let no more requests wait.
func TestBusyAgents(t *testing.T) {
	refused := func(n int, message, code string) http.HandlerFunc {
		return status(n, "Content-Type", "application/json", fmt.Sprintf(`{"error": {"message": %q, "type": "rate_limit_error", "param": null, "code": %q}}`, message, code))
	}
	for _, c := range []struct {
		status        int
		message, code string
		level         Level
		why           string
	}{
		{429, "Too many concurrent runs (max 10)", "rate_limit_exceeded", Warn, "max_concurrent_runs"},
		{429, "too many requests are waiting for the agent", "queue_full", Warn, "no more requests may wait"},
		{429, "the request waited too long for the agent", "queue_timeout", Warn, "none ended in time"},
		{429, "slow down", "other", Fail, "Hermes' log"},
		{503, "Too many concurrent runs (max 10)", "rate_limit_exceeded", Fail, "Hermes' log"},
	} {
		got := asking(t, refused(c.status, c.message, c.code)).examined(t).finding("answer")
		if got.Level != c.level || got.Says != fmt.Sprintf("the chat request was answered with status %d: “%s”", c.status, c.message) || !strings.Contains(got.Why, c.why) {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

// TestAnswersAreReadUpToABound, however they come: an endless one is left.
func TestAnswersAreReadUpToABound(t *testing.T) {
	for _, part := range []string{chunkWith(`"delta": {"content": "a"}, "finish_reason": null`), "x"} {
		var sent atomic.Int64
		left := make(chan struct{})
		a := asking(t, events(func(w http.ResponseWriter, r *http.Request) {
			defer close(left)
			for r.Context().Err() == nil {
				n, err := io.WriteString(w, strings.Repeat(part, 100))
				if sent.Add(int64(n)); err != nil {
					return
				}
			}
		})).examined(t)
		a.expect(t, part, "answer", Warn, "the answer is longer than 1024 KiB, and was not read further")
		if <-left; sent.Load() > 64*maxAnswer { // the buffers of sockets are part of it
			t.Errorf("%d bytes were sent", sent.Load())
		}
	}
}

// TestPace tells streams that are collected on their way, by a first frame that is late with all
// others, from those that come as they are made, and those that are too quick to tell.
func TestPace(t *testing.T) {
	for _, c := range []struct {
		length      int64
		first, last time.Duration
		level       Level
	}{
		{-1, 2 * time.Millisecond, 13 * time.Second, OK}, // a model that thinks, or that does not stream
		{-1, 2 * time.Millisecond, 3 * time.Millisecond, Info},
		{-1, time.Millisecond, heldUp - 1, Info},
		{-1, time.Millisecond, heldUp, OK},
		{-1, heldUp, heldUp, Fail},
		{-1, heldUp - 1, heldUp - 1, Info},
		{-1, 9 * time.Second, 10 * time.Second, Fail},
		{-1, 9*time.Second - 1, 10 * time.Second, OK}, // late, but they come one by one
		{500, time.Millisecond, heldUp, Fail},
	} {
		e := testDoctor("", "").newExamination("", "")
		e.checkPace(c.length, c.first, c.last)
		e.expect(t, c, "pace", c.level, "")
	}
	frames := string(recorded(t, "agent-loop/g3-v0.20.3/plain"))
	for says, chat := range map[string]http.HandlerFunc{
		"the first frame arrived after 30s, and all others within 0s: something in between buffers the stream": events(nil, frames),
		"the answer has a Content-Length, which a stream does not have: something in between buffers the stream": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Content-Length", fmt.Sprint(len(frames)))
			io.WriteString(w, frames)
		},
	} {
		d := asking(t, chat)
		now := time.Unix(0, 0)
		d.now = func() time.Time {
			defer func() { now = time.Unix(30, 0) }() // once the request is sent
			return now
		}
		d.examined(t).expect(t, "collected", "pace", Fail, says)
	}
	// A first frame that never came has not come after 0s.
	for _, stream := range []string{"", ": keepalive\n\n", "\n\n\n"} {
		if got := asking(t, events(nil, stream)).examined(t).finding("pace"); got.Check != "" {
			t.Errorf("%q: %+v", stream, got)
		}
	}
}

// TestThroughTheSidecar it is seen what is repaired, and hermes is proven by its header, also by an answer that
// needs no repair. A bare Caddy sends none.
func TestThroughTheSidecar(t *testing.T) {
	s := rewrite.New(new(rewrite.Options), rewrite.Params{Active: true})
	_, body, _ := bytes.Cut(recorded(t, "g0-v0.8.0/one_tool"), []byte("\r\n\r\n"))
	repaired := s.Finish(s.Feed(nil, body, time.Time{}), rewrite.CauseEOF)
	announced := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Hermes-Sidecar", "v0.1.0")
		(&fake{dir: "g0-v0.8.0"}).replay(w, "plain.sse")
	}
	const unproven = "nothing shows that hermes is in that route"
	for _, c := range []struct {
		scenario string
		chat     http.HandlerFunc // of the sidecar, nil if it repairs nothing
		level    Level
		says     string
		route    Level
		proof    string
	}{
		{"one_tool", events(nil, string(repaired)), OK, "everything that needed a repair is repaired", Warn, unproven},
		{"one_tool", nil, Warn, "this answer still needs a repair: §1 a tool marker", Warn, unproven},
		{"plain", nil, Info, "the answer needs no repair, with or without the sidecar", Warn, unproven},
		{"plain", announced, Info, "the answer needs no repair, with or without the sidecar", OK, "hermes is in that route: “v0.1.0”"},
	} {
		agent := &fake{dir: "g0-v0.8.0", scenario: c.scenario, key: key}
		sidecar := &fake{dir: agent.dir, scenario: agent.scenario, key: key, serve: map[string]http.HandlerFunc{chatPath: c.chat}}
		d := testDoctor(agent.start(t), key)
		d.ask, d.through = true, sidecar.start(t)
		a := d.examined(t)
		a.expect(t, c.says, "through.repaired", c.level, c.says)
		a.expect(t, c.says, "through.reachable", OK, "")
		a.expect(t, c.says, "through.hermes", c.route, c.proof)
		if a.Through != d.through {
			t.Errorf("%s: %+v", c.says, a)
		}
	}
}

// TestSiteWithLogins is examined as the client whose key is given. The agent never gets that key, nor the site
// the agent's.
func TestSiteWithLogins(t *testing.T) {
	const client = "a-client-of-this-test"
	for given, c := range map[string]struct {
		sent  string
		level Level
		says  string
	}{
		client:                         {"Bearer " + client, OK, "it answers with HTTP/1.1, and reaches a Hermes"},
		"Basic bWU6b2YtdGhpcy10ZXN0":   {"Basic bWU6b2YtdGhpcy10ZXN0", OK, "it answers with HTTP/1.1, and reaches a Hermes"},
		"":                             {"Bearer " + client, Info, "it asks for credentials (status 401)"},
		"another-client-of-this-test1": {"Bearer " + client, Fail, "it rejects the client's key (status 401: “no such client"},
	} {
		agent := fake{dir: "g3-v0.20.3", scenario: "plain", key: key}
		site := fake{}
		behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			site.note(r)
			if r.Header.Get("Authorization") != c.sent {
				status(401, "", "", `{"error": {"message": "no such client `+r.Header.Get("Authorization")+`"}}`)(w, r)
				return
			}
			r.Header.Set("Authorization", "Bearer "+key) // as a site with logins does
			agent.ServeHTTP(w, r)
		}))
		t.Cleanup(behind.Close)
		d := testDoctor((&fake{dir: "g3-v0.20.3", scenario: "plain", key: key}).start(t), key)
		d.ask, d.through, d.clientKey = true, behind.URL, given
		a := d.examined(t)
		a.expect(t, given, "through.reachable", c.level, c.says)
		if _, bare := schemeOf(given); given != "" && strings.Contains(newReport(a).text(), bare) {
			t.Errorf("the client's key is in the report:\n%s", newReport(a).text())
		}
		seen, _ := agent.requests()
		asked := slices.Contains(seen, "POST "+chatPath)
		if _, keys := site.requests(); asked != (c.level == OK) || slices.Contains(keys, "Bearer "+key) {
			t.Errorf("%q: asked %t; the site got %q", given, asked, keys)
		}
	}
}

// TestAnswersThatAreLeft when the doctor's time is over are not repaired by that: the
// sidecar waits longer.
func TestAnswersThatAreLeft(t *testing.T) {
	const left = "the answer did not end within 1s"
	role := chunkWith(`"delta": {"role": "assistant"}, "finish_reason": null`)
	waiting := "event: hermes.status\ndata: {\"kind\": \"lifecycle\", \"text\": \"Provider temporarily unavailable\"}\n\n"
	for stream, says := range map[string]string{
		role:                left,
		role + waiting:      left + "; its last hermes.status: “Provider temporarily unavailable”",
		": keepalive\n\n":   left,
		role + ": keepal":   left,
		role + "data: {\"a": left,
	} {
		for { // a busy machine may not have got the header in time
			d := asking(t, events(silence, stream))
			d.askTimeout = time.Second
			a := d.examined(t)
			got := a.finding("answer")
			if strings.HasPrefix(got.Says, "no answer within") || strings.Contains(says, "status") && !strings.Contains(got.Says, "status") {
				continue
			}
			if got.Level != Fail || got.Says != says || !strings.Contains(got.Why, "--ask-timeout") {
				t.Errorf("%q: %+v", stream, got)
			}
			if a.finding("repaired").Check != "" || a.finding("usage").Check != "" {
				t.Errorf("%q: %+v", stream, a.Findings)
			}
			break
		}
	}
}
