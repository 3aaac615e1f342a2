package details

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
)

// plain is the answer to go without details.
var plain = []string{"call_1 running ", "call_1 completed ", "call_2 running ", "call_2 completed "}

// goes has the agent run two tools for the prompt go.
func (p *place) goes() {
	two := use
	two.ID = "call_2"
	p.On("go", hermes.Uses(use), hermes.Uses(two), hermes.Says("done"))
}

// TestHermesThatDoesNotTell: whatever Hermes answers instead, the stream is as it would be without details, and
// after a refusal Hermes is asked once. The log says so once, with what to do.
func TestHermesThatDoesNotTell(t *testing.T) {
	t.Parallel()
	list := func(rows string) http.HandlerFunc {
		return hermes.Replies(200, "application/json", `{"object": "list", "session_id": "other", "data": [`+rows+`]}`)
	}
	for name, c := range map[string]struct {
		answer  http.HandlerFunc
		asked   int // in three streams
		outcome string
		log     string
	}{
		"404":             {hermes.Replies(404, "application/json", `{"error": {}}`), 1, "refused", "0.18 or newer"},
		"401":             {hermes.Replies(401, "application/json", `{"error": {}}`), 1, "refused", "allow the key"},
		"403":             {hermes.Replies(403, "text/html", `<h1>no</h1>`), 1, "refused", "allow the key"},
		"429":             {hermes.Replies(429, "application/json", `{}`), 1, "refused", "find out why"},
		"500":             {hermes.Replies(500, "text/plain", `500`), 3, "failed", "find out why"},
		"302":             {hermes.Replies(302, "text/plain", ``, "Location", "/elsewhere"), 3, "failed", "find out why"},
		"204":             {hermes.Replies(204, "text/plain", ``), 3, "failed", "find out why"},
		"garbage":         {hermes.Replies(200, "application/json", "\x00\xff{[\"data\": [{"), 3, "unreadable", "find out why"},
		"HTML":            {hermes.Replies(200, "text/html", "<html>{}</html>"), 3, "unreadable", "find out why"},
		"deep":            {hermes.Replies(200, "application/json", strings.Repeat("[", 1<<20)), 3, "unreadable", "find out why"},
		"compressed":      {hermes.Replies(200, "application/json", "\x1f\x8b\x08", "Content-Encoding", "gzip"), 3, "unreadable", "find out why"},
		"another session": {list(`{"session_id": "other", "role": "user", "content": "x"}, {"session_id": "other", "role": "assistant", "tool_calls": [{"id": "call_1", "function": {"name": "terminal", "arguments": "{\"command\": \"secret\"}"}}]}`), 9, "answered", ""},
		"other types":     {list(`{"role": ["assistant"], "tool_calls": {"id": "call_1"}}, 7, null, "call_1", [[]], {"role": "assistant", "tool_calls": [{"id": {"x": "call_1"}, "function": "terminal"}, null, [{}]]}`), 9, "answered", ""},
		"breaks off": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "1000")
			io.WriteString(w, `{"object": "list", "data": [`)
		}, 3, "lost", "find out why"},
		"dies": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 3, "lost", "find out why"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.goes()
			p.AnswerSessions(c.answer)
			for range 3 {
				want(t, p.ask("go").Answer(), plain...)
			}
			if n := len(p.SessionQuestions()); n != c.asked && !(name == "dies" && n >= c.asked) { // the transport repeats what has no answer
				t.Errorf("%d questions, want %d", n, c.asked)
			}
			if got := p.metric(c.outcome); got != fmt.Sprint(c.asked) {
				t.Errorf("%s questions were %s, want %d", got, c.outcome, c.asked)
			}
			log := p.caddy.Log.String()
			const warning = "upstream does not report the arguments and results of tools"
			if n := strings.Count(log, warning); n != min(1, len(c.log)) || !strings.Contains(log, c.log) {
				t.Errorf("%d warnings in the log:\n%s", n, log)
			}
			if strings.Contains(log, "secret") {
				t.Error("the log has a row")
			}
		})
	}
}

// TestHermesThatIsSlow: an event waits for an answer that does not come, once in a stream, and what was there
// before it does not wait. After three such streams Hermes is not asked.
func TestHermesThatIsSlow(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	asked, never := make(chan struct{}, 9), make(chan struct{})
	var gone atomic.Int32
	p.AnswerSessions(func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done() // the sidecar gives up
		gone.Add(1)
	})
	t.Cleanup(func() { close(never) })
	more := make(chan struct{})
	p.On("go", hermes.Says("before"), hermes.Uses(use), hermes.Uses(hermes.Call{ID: "call_2", Name: "terminal"}), hermes.Says("after"), hermes.Waits(more), hermes.Says("done"))
	for i := range 4 {
		r := p.ask("go")
		for said := ""; said != "before"; { // while Hermes has not answered
			if e := r.Frame(); e.Chunk != nil && len(e.Choices) > 0 {
				said = e.Choices[0].Delta.Content
			}
		}
		if i < 3 {
			<-asked
		}
		for running := 0; running < 2; {
			if e := r.Frame(); e.Chunk != nil && e.Status == "running" {
				running++
			}
		}
		more <- struct{}{}
		if a := r.Answer(); !strings.HasSuffix(a.Content, "done") {
			t.Errorf("the answer is %q", a.Content)
		}
	}
	if n := len(p.SessionQuestions()); n != 3 {
		t.Errorf("%d questions, want 3: one a stream, and none after three", n)
	}
	harness.Until(t, "the questions are given up", func() bool { return gone.Load() == 3 })
	if got := p.metric("late"); got != "3" {
		t.Errorf("%s questions were late", got)
	}
}

// TestEventWaitsAtMost300ms: of a Hermes that never answers.
func TestEventWaitsAtMost300ms(t *testing.T) {
	harness.AtAnyPace(t, 300*time.Millisecond, func(t testing.TB, d time.Duration) {
		p := newPlace(t)
		p.AnswerSessions(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		p.goes()
		began := time.Now()
		want(t, p.ask("go").Answer(), plain...)
		if took := time.Since(began); took > 4*d {
			t.Errorf("the stream took %v", took)
		}
	})
}

// TestDetailsOfAHugeAnswer: past 4 MiB the sidecar gives up, and takes no more memory for it; this upstream is
// asked once.
func TestDetailsOfAHugeAnswer(t *testing.T) {
	agent := hermes.New(t, 0)
	p := inFront(t, agent, "hermes\nreverse_proxy "+agent.Addr, "GOGC=20", "GODEBUG=gcstoptheworld=1")
	p.goes()
	want(t, p.ask("go").Answer(), `call_1 running {"command":"ls -la"}`, `call_1 completed {"command":"ls -la"} `+use.Result,
		`call_2 running {"command":"ls -la"}`, `call_2 completed {"command":"ls -la"} `+use.Result)
	grown := sidecar.LimitGrowth(t, p.caddy, 48<<20)
	var sent atomic.Int64
	for what, row := range map[string]string{
		"small rows":   `{"session_id": "s", "role": "assistant", "tool_calls": [{"id": "x", "function": {"name": "t", "arguments": "{}"}}]}, `,
		"one row":      `{"role": "tool", "content": "` + strings.Repeat("x", 200<<20),
		"one envelope": strings.Repeat("[", 100) + strings.Repeat("1,", 1<<20),
	} {
		agent := hermes.New(t, 0)
		p := inFront(t, agent, "hermes\nreverse_proxy "+agent.Addr, "GOGC=20", "GODEBUG=gcstoptheworld=1")
		grown := sidecar.LimitGrowth(t, p.caddy, 48<<20)
		p.goes()
		ended := make(chan struct{}, 9)
		p.AnswerSessions(func(w http.ResponseWriter, r *http.Request) {
			defer func() { ended <- struct{}{} }()
			n, err := io.WriteString(w, `{"object": "list", "session_id": "s", "data": [`)
			for err == nil && n < 200<<20 {
				var m int
				m, err = io.WriteString(w, row)
				n += m
				sent.Store(int64(n))
			}
		})
		for range 3 {
			want(t, p.ask("go").Answer(), plain...)
		}
		<-ended
		if n := len(p.SessionQuestions()); n > 3 { // three if a busy machine has not read 4 MiB in time
			t.Errorf("%s: %d questions", what, n)
		}
		if n := sent.Load(); n > 64<<20 {
			t.Errorf("%s: Hermes has sent %d bytes", what, n)
		}
		grown(what)
	}
	grown("nothing")
}

// TestDetailsThatHermesDoesNotHave: an agent that stores calls when the turn is over is not asked for each event.
func TestDetailsThatHermesDoesNotHave(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	var steps []hermes.Step
	for i := range 20 {
		id := fmt.Sprint("call_", i)
		steps = append(steps, hermes.Starts("terminal", id), hermes.Ends("terminal", id))
	}
	p.On("go", append(steps, hermes.Says("done"))...)
	a := p.ask("go").Answer()
	a.CheckGood(t)
	if n := len(p.SessionQuestions()); n != 3 {
		t.Errorf("%d questions, want 3", n)
	}
}

// TestSessionsThatAreNotAskedFor: an id that is no part of a path, or too long, and an answer without one.
func TestSessionsThatAreNotAskedFor(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.goes()
	for _, id := range []string{"..", ".", "a/../../v1/models", `a\b`, "a%2fb", "a b", "a?b", "a#b", strings.Repeat("x", 257)} {
		want(t, p.ask("go", "X-Hermes-Session-Id", id).Answer(), plain...)
	}
	if all := p.SessionQuestions(); len(all) > 0 {
		t.Errorf("asked %v", all)
	}
	p.Answer("no session", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, lines := range [][]string{hermes.Running("terminal", "call_1"), hermes.Completed("terminal", "call_1")} {
			io.WriteString(w, strings.Join(lines, "\n")+"\n\n")
		}
	})
	p.ask("no session").Answer()
	if all := p.SessionQuestions(); len(all) > 0 {
		t.Errorf("asked %v", all)
	}
}

// TestAnotherUpstreamIsNotBelieved: sessions of conversations that begin alike have the same id at each agent.
func TestAnotherUpstreamIsNotBelieved(t *testing.T) {
	t.Parallel()
	a, b := hermes.New(t, 0), hermes.New(t, 0)
	p := inFront(t, a, "hermes\nreverse_proxy "+a.Addr+" "+b.Addr+" {\n\tlb_policy header X-To {\n\t\tfallback random\n\t}\n}")
	for agent, secret := range map[*hermes.Agent]string{a: "a", b: "b"} {
		mine := use
		mine.Args, mine.Result = `{"of":"`+secret+`"}`, secret
		agent.On("go", hermes.Uses(mine), hermes.Says(secret))
	}
	for range 12 {
		r := p.ask("go")
		got := r.Answer()
		for _, e := range got.Events {
			if e.Chunk != nil && len(e.Args) > 0 && string(e.Args) != `{"of":"`+got.Content+`"}` {
				t.Errorf("the answer of %s has the arguments %s", got.Content, e.Args)
			}
		}
	}
}

// TestThousandTools: a stream of a thousand tools is told of as far as its bound goes, and complete.
func TestThousandTools(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	var calls []hermes.Call
	for i := range 1000 {
		calls = append(calls, hermes.Call{ID: fmt.Sprint("call_", i), Name: "terminal", Args: fmt.Sprintf(`{"n": %d, "x": "%s"}`, i, strings.Repeat("x", 500)), Result: strings.Repeat("r", 500)})
	}
	a := p.inSteps(calls)
	a.CheckGood(t)
	sum, results := 0, 0
	for _, e := range a.Events {
		if e.Chunk != nil && e.Status != "" {
			sum += len(e.Args)
			if e.Result != nil {
				results++
				sum += len(*e.Result) + 2
			}
		}
	}
	if sum > 1<<20 || sum < 1<<19 {
		t.Errorf("the events have %d bytes of details", sum)
	}
	t.Logf("%d results, %d bytes", results, sum)
}

// TestClientLeavesWhileAQuestionIsOpen: nothing stays behind.
func TestClientLeavesWhileAQuestionIsOpen(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	asked, gone := make(chan struct{}, 1), make(chan struct{}, 1)
	p.AnswerSessions(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
		gone <- struct{}{}
	})
	p.goes()
	r := p.ask("go")
	<-asked
	r.Leave()
	<-gone
	harness.Until(t, "the stream is over", func() bool { return p.IsOver("go") })
}

// TestSlowHermesStaysHealthy: a question that is given up is no failure for Caddy's passive health checks, which
// would refuse the next chat.
func TestSlowHermesStaysHealthy(t *testing.T) {
	t.Parallel()
	agent := hermes.New(t, 0)
	p := inFront(t, agent, "hermes\nreverse_proxy "+agent.Addr+" {\n\tfail_duration 1h\n\tlb_try_duration 1s\n}")
	p.AnswerSessions(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	p.goes()
	for range 3 {
		want(t, p.ask("go").Answer(), plain...)
	}
	if late := p.metric("late"); late != "3" {
		t.Errorf("%s questions were late", late)
	}
}

// TestResultOfTheTurnBefore: an agent that stores a turn when it ends (0.16) has only the turn before, with the
// same id, name and label, until then.
func TestResultOfTheTurnBefore(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.Answer("go", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("X-Hermes-Session-Id", "s")
		for _, lines := range [][]string{hermes.Running("terminal", "call_0"), hermes.Completed("terminal", "call_0")} {
			io.WriteString(w, strings.Join(lines, "\n")+"\n\n")
		}
	})
	p.AnswerSessions(hermes.Replies(200, "application/json", fmt.Sprintf(`{"object": "list", "session_id": "s", "data": [{"session_id": "s", "role": "user", "timestamp": %[1]d.5}, `+
		`{"session_id": "s", "role": "assistant", "timestamp": %[1]d.5, "tool_calls": [{"id": "call_0", "function": {"name": "terminal", "arguments": "{}"}}]}, `+
		`{"session_id": "s", "role": "tool", "timestamp": %[1]d.5, "tool_call_id": "call_0", "content": "old"}, {"session_id": "s", "role": "assistant", "timestamp": %[1]d.5}]}`, time.Now().Unix()-9)))
	if all := p.ask("go").All(); strings.Contains(all, "old") || strings.Contains(all, `"args"`) {
		t.Errorf("the answer has a call of the turn before: %s", all)
	}
	if n := len(p.SessionQuestions()); n == 0 {
		t.Error("nothing was asked")
	}
}
