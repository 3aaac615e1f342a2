package approvals

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

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
		if n := strings.Count(p.caddy.Log.String(), line); n != 2 {
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

// TestReplyNeedsResume: without it the answer does not end, and the log says why.
func TestReplyNeedsResume(t *testing.T) {
	p := newPlace(t, resume+"off", byLink, byReply)
	p.On("go", asksOnce(danger)...)
	me := person{t: t, at: p, key: "key-1"}
	a := me.asks("go").wait()
	me.presses(a.url, "session")
	if answer := a.ends(); a.code != "" || strings.Contains(answer.Content, "reply `") || !strings.HasSuffix(answer.Content, "Done: session") {
		t.Errorf("the code %q, %q", a.code, answer.Content)
	}
	if !p.caddy.Await("the answer cannot continue without its client") {
		t.Error("the log does not say why there is no code")
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

// TestAgentThatNeverAsks has the same bytes with all of it on.
func TestAgentThatNeverAsks(t *testing.T) {
	var bodies []string
	for _, lines := range [][]string{{resume + "off"}, {resume + "off", byLink, byReply}} {
		me := person{t: t, at: newPlace(t, lines...), key: "key-1"}
		bodies = append(bodies, regexp.MustCompile(`chatcmpl-\w+`).ReplaceAllString(me.asks("hello").All(), "chatcmpl"))
	}
	if bodies[0] != bodies[1] {
		t.Errorf("%s\nwant\n%s", bodies[1], bodies[0])
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
		ask := func(method, path, body string) *bufio.Reader { // package client knows chats alone
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

// TestApprovalsAreLoggedOnceASecond, whether their clients are asked or not: an agent may ask as often as it likes.
// The first ones are all there, and at the level debug all of them are.
func TestApprovalsAreLoggedOnceASecond(t *testing.T) {
	ask := func(id string) hermes.Step {
		return hermes.Sends("event: approval.request", `data: {"command": "rm -rf `+id+`", "description": "d", "request_id": "req-`+id+`", "event": "approval.request", "run_id": "chatcmpl-1", "choices": ["once", "deny"]}`)
	}
	var refused, asked []hermes.Step
	for i := range 500 {
		refused = append(refused, ask(fmt.Sprint("r", i)))
		asked = append(asked, hermes.Sends(hermes.Running("terminal", fmt.Sprint("a", i))...), ask(fmt.Sprint("a", i)), hermes.Ends("terminal", fmt.Sprint("a", i)))
	}
	for name, c := range map[string]struct {
		steps       []hermes.Step
		lines       []string
		says, level string
	}{
		"refused":        {refused, []string{byLink}, "the client was not asked", "warn"},
		"asked":          {asked, []string{byLink}, "asked for approval", "info"},
		"without a user": {refused, []string{byLink, byUser}, "the client was not asked", "warn"},
		"no reply":       {asked, []string{resume + "detach 0s", byReply}, "the answer cannot continue without its client", "warn"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, c.lines...)
			p.load(t, strings.Replace(p.caddyfile(c.lines...), "{\n", "{\ndebug\n", 1))
			p.On("go", append(c.steps, hermes.Says("Done."))...)
			began := time.Now()
			a := person{t: t, at: p, key: "key-1"}.asks("go")
			if all := a.All(); !strings.Contains(all, "Done.") {
				t.Fatal("the answer is not whole")
			}
			var levels map[string]int
			harness.Until(t, "the first are logged, and others at debug", func() bool {
				levels = map[string]int{}
				for line := range strings.Lines(p.caddy.Log.String()) {
					if _, level, ok := strings.Cut(line, `"level":"`); ok && strings.Contains(line, c.says) {
						level, _, _ = strings.Cut(level, `"`)
						levels[level]++
					}
				}
				return levels[c.level] >= 20 && levels["debug"] > 0
			})
			if most := 20 + int(time.Since(began)/time.Second) + 1; levels[c.level] > most {
				t.Errorf("lines by level: %v, want at most %d at %s", levels, most, c.level)
			}
		})
	}
}

// TestCardsSayWhatBecameOfCommands: what waits, and what was denied or expired, does not look as if it had run,
// whichever way was taken.
func TestCardsSayWhatBecameOfCommands(t *testing.T) {
	p := newPlace(t, byLink, "cards on", "status_line on")
	me := person{t: t, at: p, key: "key-1"}
	says := func(name string, h *held, want string) (content string) {
		t.Helper()
		content = h.ends().Content
		if all := h.read.String(); strings.Count(all, `"type":"function_call_output"`) != 1 || !strings.Contains(all, `"output":[{"type":"input_text","text":"`+want+`"}]`) {
			t.Errorf("%s: want one row that says %q in\n%s", name, want, all)
		}
		return content
	}
	wants := map[string]string{"once": "completed", "deny": "Error: denied", "expires": "Error: expired"}
	asks := func(what string) (a *held, expires chan struct{}) {
		expires = make(chan struct{})
		p.On(what, asks(hermes.Command{Text: danger, Expires: expires})...)
		return me.asks(what).wait(), expires
	}
	for what, want := range wants {
		a, expires := asks(what)
		if what == "expires" {
			close(expires)
		} else {
			me.presses(a.url, what)
		}
		says("link, "+what, a, want)
	}
	p.load(t, p.caddyfile(byReply, byLink, "cards on", "status_line on"))
	for what, want := range wants {
		a, expires := asks("reply, " + what)
		before := says("the answer that asks", a, "Error: waits for approval")
		if all := a.read.String(); !strings.Contains(all, `"name":"Approval needed: `+danger+`"`) || !strings.Contains(all, `"hidden":true`) {
			t.Errorf("the row and the status line: %s", all)
		}
		verb := map[string]string{"once": "approve ", "deny": "deny ", "expires": "deny "}[what]
		if what == "expires" {
			close(expires)
			harness.Until(t, "the page knows it", func() bool { return len(me.visits(a.url).buttons()) == 0 })
		}
		says("the rest, "+what, me.asks("reply, "+what, before, verb+a.code), want)
	}
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

// TestCommandThatCannotBeShown can only be denied, by the page and by a reply, and nothing else is offered.
func TestCommandThatCannotBeShown(t *testing.T) {
	p := newPlace(t, byLink, byReply)
	p.On("go", asksOnce("")...)
	me := person{t: t, at: p, key: "key-1"}
	first := me.asks("go").wait()
	before := first.ends()
	if all := first.read.String(); strings.Contains(before.Content, "`approve ") || !strings.Contains(all, `"hermes_choices": ["deny"]`) {
		t.Errorf("offered: %s", all)
	}
	if s := me.presses(first.url, "once"); !slices.Equal(s.buttons(), []string{"deny"}) {
		t.Errorf("the page says %d %s", s.status, s.words())
	}
	if all := me.asks("go", before.Content, "approve "+first.code).All(); !strings.Contains(all, "approval_refused") {
		t.Errorf("approved, it says %s", all)
	}
	p.WantUnanswered(t, "approvals")
	if text := me.asks("go", before.Content, "deny "+first.code).ends().Content; !strings.HasSuffix(text, "Done: deny") {
		t.Errorf("denied, it says %q", text)
	}
}
