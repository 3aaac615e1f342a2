package details

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

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

// TestHermesThatIsSlow: an event waits for an answer that does not come, once in a stream, and what was there
// before it does not wait. After three such streams Hermes is not asked. A question that is given up is no
// failure for Caddy's passive health checks, which would refuse the next chat.
func TestHermesThatIsSlow(t *testing.T) {
	t.Parallel()
	agent := hermes.New(t, 0)
	p := inFront(t, agent, "hermes\nreverse_proxy "+agent.Addr+" {\n\tfail_duration 1h\n\tlb_try_duration 1s\n}")
	var gone atomic.Int32
	p.AnswerSessions(func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done() // the sidecar gives up
		gone.Add(1)
	})
	more := make(chan struct{})
	p.On("go", hermes.Says("before"), hermes.Uses(use), hermes.Uses(hermes.Call{ID: "call_2", Name: "terminal"}), hermes.Says("after"), hermes.Waits(more), hermes.Says("done"))
	for range 4 {
		r := p.ask("go")
		for said := ""; said != "before"; { // while Hermes has not answered
			if e := r.Frame(); e.Chunk != nil && len(e.Choices) > 0 {
				said = e.Choices[0].Delta.Content
			}
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
	if got := p.metric("late"); got != 3 {
		t.Errorf("%v questions were late, want 3: one a stream, and none after three", got)
	}
	// On a busy machine one may be late before Hermes has it.
	harness.Until(t, "the questions are given up", func() bool { return int(gone.Load()) == len(p.SessionQuestions()) })
	if n := len(p.SessionQuestions()); n > 3 {
		t.Errorf("Hermes was asked %d times", n)
	}
}

// TestDetailsOfAHugeAnswer: past 4 MiB the sidecar gives up, and takes no more memory for it; this upstream is
// asked once.
func TestDetailsOfAHugeAnswer(t *testing.T) {
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
			want(t, func() *place { return p }, asksToGo, plain...)
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
}
