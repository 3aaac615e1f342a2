package approvals

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/metrics"
)

// TestReloads: the answer that asked goes on, and so does the rest of one that has ended for a reply.
func TestReloads(t *testing.T) {
	p := newPlace(t, byLink)
	p.On("go", asksOnce(danger)...)
	me := person{t: t, at: p, key: "key-1"}
	a := me.asks("go").wait()
	p.load(t, p.caddyfile(byLink, "max_frame 2MiB"))
	if s := me.presses(a.url, "once"); s.status != http.StatusOK {
		t.Fatalf("pressed: %d %s", s.status, s.words())
	}
	if got := textOf(a.ends()); !strings.HasSuffix(got, "Done: once") {
		t.Errorf("the answer is %q", got)
	}
	p.load(t, p.caddyfile(byReply))
	first := me.asks("go").wait()
	before := first.ends()
	p.load(t, p.caddyfile(byReply, "max_frame 2MiB"))
	for _, want := range []string{"Done: once", "This request was answered before.\n\n\n\nDone: once"} {
		if got := strings.TrimSpace(me.asks("go", before.Content, "approve "+first.code).ends().Content); got != want {
			t.Errorf("the reply is answered by %q, want %q", got, want)
		}
	}
	p.WantRan(t, danger, 2)
	for _, line := range []string{`"msg":"asked for approval"`, `"msg":"approval answered"`} {
		lines := func() int { return strings.Count(p.caddy.Log.String(), line) }
		harness.Until(t, "two lines have "+line, func() bool { return lines() >= 2 })
		if n := lines(); n != 2 {
			t.Errorf("%d lines %s", n, line)
		}
	}
}

// below serves the agent below /agent, and tells of the requests that come.
func (p *place) below(t *testing.T, comes func(*http.Request)) (address string) {
	t.Helper()
	agent := http.StripPrefix("/agent", harness.ProxyTo(p.Addr))
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		comes(r)
		agent.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	t.Cleanup(front.CloseClientConnections)
	return front.Listener.Addr().String()
}

// TestAnswersTakeTheWayOfTheirClient: of a group of routes after hermes only the first that matches handles a
// request. An answer is another request, whose path is beside the one that the client asked for, not the one that
// upstream gets. It has no field of the client's that says who its user is.
func TestAnswersTakeTheWayOfTheirClient(t *testing.T) {
	for _, queue := range []string{"", "hermes_queue"} {
		p := newPlace(t, byLink)
		p.On("go", asksOnce(danger)...)
		header := make(chan http.Header, 1)
		front := p.below(t, func(r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/approval") {
				header <- r.Header
			}
		})
		p.load(t, p.around("route {\n"+queue+"\nhermes {\n"+byLink+"\nidentity {header.X-User}\n}\nhandle /v1/* {\nrewrite * /agent{path}\nreverse_proxy "+front+"\n}\nhandle {\nrespond 200\n}\n}", "hermes_approvals"))
		me := person{t: t, at: p, key: "key-1", user: "ann"}
		a, err := me.tries(said{"go"}.body(true), "X_hermes_session_key", "bob", "X-Hermes-Session-Id", "bob")
		if err != nil {
			t.Fatal(err)
		}
		if s := me.presses(a.wait().url, "once"); s.status != http.StatusOK {
			t.Fatalf("%q: pressed: %d %s", queue, s.status, s.words())
		}
		if got := textOf(a.ends()); !strings.HasSuffix(got, "Done: once") {
			t.Errorf("%q: %q", queue, got)
		}
		for name, values := range <-header {
			if strings.HasPrefix(strings.ToLower(strings.ReplaceAll(name, "_", "-")), "x-hermes-session") {
				t.Errorf("%s: %q", name, values)
			}
		}
	}
}

// list returns what the site says of its streams.
func (p person) list() string {
	p.t.Helper()
	return p.browses(http.MethodGet, p.at.api+"/hermes/streams", "").text
}

// TestWhatWaitsIsListed, without the command and the ticket. The log says whose it is.
func TestWhatWaitsIsListed(t *testing.T) {
	p := newPlace(t, byLink, byUser, beside+"hermes_streams /hermes/streams")
	p.On("go", asksOnce(danger)...)
	me := person{t: t, at: p, key: "key-1", user: "ada"}
	a := me.asks("go").wait()
	if got := me.list(); !strings.Contains(got, `"waiting_approvals":[{"tool":"terminal","seconds":`) || strings.Contains(got, danger) || strings.Contains(got, a.url[len(a.url)-22:]) {
		t.Errorf("listed: %s", got)
	}
	me.presses(a.url, "once")
	a.ends()
	if got := me.list(); strings.Contains(got, "waiting_approvals") {
		t.Errorf("listed after its end: %s", got)
	}
	if !p.caddy.Await(`"by":"ada"`) {
		t.Error("the log does not say who")
	}
}

// TestRepeatsAroundASplit: what an SDK or a client with a key sends again has the same answer.
func TestRepeatsAroundASplit(t *testing.T) {
	for name, header := range map[string][2][]string{
		"sdk": {{"X-Stainless-Retry-Count", "0"}, {"X-Stainless-Retry-Count", "1"}},
		"key": {{"Idempotency-Key", "KEY"}, {"Idempotency-Key", "KEY"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, byReply)
			p.On("go", asksOnce(danger)...)
			me := person{t: t, at: p, key: "key-1"}
			ask := func(i int, key string, messages ...string) *held {
				h, err := me.tries(said(messages).body(true), header[i][0], strings.Replace(header[i][1], "KEY", key, 1))
				if err != nil {
					t.Fatal(err)
				}
				return h
			}
			first, again := ask(0, "a", "go").wait(), ask(1, "a", "go").wait()
			before := first.ends()
			if same := again.ends(); same.Content != before.Content || again.code != first.code {
				t.Errorf("the repeat has %q, not %q", same.Content, before.Content)
			}
			for i := range 2 {
				if got := strings.TrimSpace(ask(i, "b", "go", before.Content, "approve "+first.code).ends().Content); got != "Done: once" {
					t.Errorf("the reply %d has %q", i, got)
				}
			}
			if q := p.Questions(); len(q) != 1 || !slices.Equal(q[0].Choices, []string{"once"}) || len(p.sent()) != 1 {
				t.Errorf("%d requests, %+v", len(p.sent()), q)
			}
		})
	}
}

// TestRunsAndSessions: the link is in the event, also if that is read again, and the answer reaches the run.
func TestRunsAndSessions(t *testing.T) {
	for _, always := range []string{"off", "always runs sessions 1m"} {
		p := newPlace(t, resume+always, byLink)
		p.On("go", asksOnce(danger)...)
		me := person{t: t, at: p, key: "key-1"}
		ask := func(method, path, body string) *bufio.Reader { // package client knows the frames of chats alone
			q, _ := http.NewRequest(method, p.api+path, strings.NewReader(body))
			q.Header.Set("Authorization", "Bearer "+me.key)
			q.Header.Set("Content-Type", "application/json")
			res, err := http.DefaultClient.Do(q)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { res.Body.Close() })
			return bufio.NewReader(res.Body)
		}
		link := func(in *bufio.Reader) string {
			for {
				line, err := in.ReadString('\n')
				if url, _ := offered(strings.TrimPrefix(line, "data: ")); url != "" {
					return url
				}
				if err != nil {
					t.Fatalf("%v before a link", err)
				}
			}
		}
		if begun, _ := io.ReadAll(ask(http.MethodPost, "/v1/runs", `{"input": "go"}`)); !strings.Contains(string(begun), p.Requests()[0].ID) {
			t.Fatalf("%s", begun)
		}
		events := func() *bufio.Reader { return ask(http.MethodGet, "/v1/runs/"+p.Requests()[0].ID+"/events", "") }
		for name, in := range map[string]*bufio.Reader{"a run": events(), "a session": ask(http.MethodPost, "/api/sessions/s1/chat/stream", `{"message": "go"}`)} {
			page := link(in)
			if name == "a run" {
				if again := link(events()); again != page {
					t.Errorf("read again, the link is %s, not %s", again, page)
				}
			}
			if s := me.presses(page, "once"); s.status != http.StatusOK {
				t.Fatalf("%s: pressed: %d %s", name, s.status, s.words())
			}
			if rest, err := io.ReadAll(in); err != nil || !strings.Contains(string(rest), "run.completed") || strings.Contains(string(rest), "hermes_approval_url") {
				t.Errorf("%s: %v %s", name, err, rest)
			}
			if s := me.presses(page, "once"); !strings.Contains(s.words(), "Already answered") {
				t.Errorf("%s, again: %s", name, s.words())
			}
		}
		p.WantRan(t, danger, 2)
	}
}

// TestHeldAnswersTakeNoMore: with as many answers that wait for a reply as may be, the next one says that nobody
// can answer, and goes on in the same answer. When they have ended there is room again.
func TestHeldAnswersTakeNoMore(t *testing.T) {
	p := newPlace(t, resume+"always chat 1m\nmax_detached 2", byReply)
	expires := make(chan struct{})
	p.On("go", asks(hermes.Command{Text: danger, Expires: expires})...)
	p.On("again", asksOnce(danger)...)
	me := person{t: t, at: p, key: "key-1"}
	var chats []said
	for range 2 {
		a := me.asks("go").wait()
		chats = append(chats, said{"go", a.ends().Content, "approve " + a.code})
	}
	third := me.asks("go").wait()
	close(expires)
	if text := third.ends().Content; strings.Contains(text, "approve") || !strings.Contains(text, "\n\n`🔐 Approval needed` nobody can answer here now, so the command does not run: `"+danger+"`\n\n") || !strings.HasSuffix(text, "Done: expired") {
		t.Errorf("%q", text)
	}
	for _, chat := range chats {
		if text := me.asks(chat...).ends().Content; !strings.HasSuffix(text, "Done: expired") {
			t.Errorf("%q", text)
		}
	}
	a := me.asks("again").wait()
	if text := me.asks("again", a.ends().Content, "approve "+a.code).ends().Content; !strings.HasSuffix(text, "Done: once") {
		t.Errorf("%q", text)
	}
}

// TestClientThatLeavesAroundASplit: what it was asked it can still answer.
func TestClientThatLeavesAroundASplit(t *testing.T) {
	for _, until := range []string{"running", "hermes_approval_code", `"stop"`} {
		t.Run(until, func(t *testing.T) {
			p := newPlace(t, byReply)
			p.On("go", asksOnce(danger)...)
			me := person{t: t, at: p, key: "key-1"}
			leave := func(h *held, until string) {
				for !strings.Contains(h.read.String(), until) {
					if _, err := h.next(); err != nil {
						t.Fatalf("%v before %s: %s", err, until, h.read.String())
					}
				}
				h.Leave()
			}
			a := me.asks("go")
			leave(a, until)
			again, err := me.sends(http.MethodGet, a.Header.Get("Content-Location"), "")
			if err != nil {
				t.Fatal(err)
			}
			chat := said{"go", again.wait().ends().Content, "approve " + again.code}
			leave(me.asks(chat...), "running")
			if text := me.asks(chat...).ends().Content; !strings.HasSuffix(text, "Done: once") {
				t.Errorf("%q", text)
			}
			p.WantRan(t, danger, 1)
		})
	}
}

// TestHeldAnswersLeaveNothing when nobody replies: their runs end, and what waits.
func TestHeldAnswersLeaveNothing(t *testing.T) {
	const n = 100
	p := newPlace(t, resume+fmt.Sprint("always chat 1m\nmax_detached ", n), byReply, beside+"hermes_streams /hermes/streams")
	expires := make(chan struct{})
	p.On("go", asks(hermes.Command{Text: danger, Expires: expires})...)
	me := person{t: t, at: p}
	goroutines := func() float64 { return metrics.Scrape(t, p.admin+"/metrics").Value("go_goroutines") }
	before := goroutines()
	for i := range n {
		me.key = fmt.Sprint("key-", i)
		me.asks("go").wait().ends()
	}
	close(expires)
	const idle = 3 * 32 // connections to upstream that are kept, and what serves them
	harness.Until(t, "nothing waits", func() bool {
		return !strings.Contains(me.list(), "waiting_approvals") && goroutines() <= before+idle+20
	})
}

// TestRepliesNeedNoPlace in line: the run that asks holds the only one until it has the reply, also if it has waited
// itself, with a client that was told so.
func TestRepliesNeedNoPlace(t *testing.T) {
	p := newPlace(t, byReply, beside+"hermes_queue {\nruns 1\nwait 1h\n}")
	p.On("go", asksOnce(danger)...)
	me := person{t: t, at: p, key: "key-1"}
	waiting := func(n float64) {
		t.Helper()
		harness.Until(t, "the line is as long", func() bool {
			return metrics.Scrape(t, p.admin+"/metrics").Value("caddy_hermes_queue_waiting") == n
		})
	}
	first := me.asks("go").wait()
	one := first.ends()
	second := me.asks("go") // its header leaves while it waits
	for !strings.Contains(second.read.String(), "you are next") {
		if _, err := second.next(); err != nil {
			t.Fatalf("%v after %s", err, second.read.String())
		}
	}
	if text := me.asks("go", one.Content, "approve "+first.code).ends().Content; strings.TrimSpace(text) != "Done: once" {
		t.Errorf("the reply is answered by %q", text)
	}
	two := second.wait().ends()
	third := make(chan string)
	go func() {
		h, err := me.tries(said{"hello"}.body(false))
		if err != nil {
			third <- err.Error()
			return
		}
		third <- h.All()
	}()
	waiting(1)
	if text := me.asks("go", two.Content, "deny "+second.code).ends().Content; !strings.HasSuffix(text, "Done: deny") {
		t.Errorf("the reply is answered by %q", text)
	}
	if text := <-third; !strings.Contains(text, "bye") {
		t.Errorf("the third is answered by %s", text)
	}
	p.WantRan(t, danger, 1)
	waiting(0)
}

// TestRecordingsHaveCommandsThatWait, as docs/security.md says, but neither links nor codes: those are not
// upstream's.
func TestRecordingsHaveCommandsThatWait(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "recordings")
	p := newPlace(t, byLink, byReply, "record "+dir)
	p.On("go", asksOnce(danger)...)
	me := person{t: t, at: p, key: "key-1"}
	first := me.asks("go").wait()
	me.asks("go", first.ends().Content, "approve "+first.code).ends()
	p.WantRan(t, danger, 1)
	p.caddy.Terminate()
	p.caddy.Exit()
	all := ""
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	for _, file := range files {
		b, readErr := os.ReadFile(file)
		if all += string(b); readErr != nil {
			t.Error(readErr)
		}
	}
	if err != nil || !strings.Contains(all, danger) {
		t.Errorf("no command in the recordings: %v %s", err, all)
	}
	for _, secret := range []string{first.url[strings.LastIndexByte(first.url, '/')+1:], first.code, me.key} {
		if strings.Contains(all, secret) {
			t.Errorf("%q is in the recordings", secret)
		}
	}
}
