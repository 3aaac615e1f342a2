package details

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/hermes-sidecar/hermes-sidecar/internal/behalf"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// streamOf returns a stream whose questions next answers, and the outcomes that it counts.
func streamOf(t *testing.T, ctx context.Context, next func(http.ResponseWriter, *http.Request) error) (rewrite.Details, *[]Outcome) {
	t.Helper()
	counted := new([]Outcome)
	o := &Options{
		Results: true, Upstreams: new(Upstreams), Upstream: func(*http.Request) string { return "a" }, Logger: zap.NewNop(),
		Count: func(o Outcome) { *counted = append(*counted, o) },
	}
	r := caddyhttp.PrepareRequest(httptest.NewRequestWithContext(ctx, http.MethodPost, "/x/v1/chat/completions?q=1", nil), caddy.NewReplacer(), httptest.NewRecorder(), nil)
	r = r.WithContext(behalf.Begin(r, next))
	s := o.Of(r, http.Header{proxy.SessionIDHeader: {"s"}})
	if s == nil {
		t.Fatal("nothing is asked")
	}
	return s, counted
}

var asked = rewrite.ToolCall{ID: "c1", Name: "t"}

func never(t *testing.T) func() { return func() { t.Error("it waits again") } }

// TestAQuestionWaitsAtMost300ms: once in a stream, whatever the handlers do, and after what was there before was
// sent.
func TestAQuestionWaitsAtMost300ms(t *testing.T) {
	for name, next := range map[string]func(http.ResponseWriter, *http.Request) error{
		"no answer":     func(_ http.ResponseWriter, r *http.Request) error { <-r.Context().Done(); return r.Context().Err() },
		"deaf handlers": func(http.ResponseWriter, *http.Request) error { time.Sleep(time.Hour); return nil },
		"half an answer": func(w http.ResponseWriter, r *http.Request) error {
			io.WriteString(w, list(user())[:50])
			<-r.Context().Done()
			return nil
		},
		"one byte at a time": func(w http.ResponseWriter, r *http.Request) error {
			for _, err := io.WriteString(w, `{"object": "list", "session_id": "s", "data": [`); err == nil && r.Context().Err() == nil; _, err = io.WriteString(w, " ") {
				time.Sleep(10 * time.Millisecond)
			}
			return r.Context().Err()
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, counted := streamOf(t, t.Context(), next)
			began, flushed := time.Now(), 0
			s.Started(asked, func() {
				if flushed++; time.Since(began) > 0 {
					t.Errorf("%s: what was there before has waited", name)
				}
			})
			if took := time.Since(began); took != maxWait || flushed != 1 {
				t.Errorf("%s: it took %v, sent %d times", name, took, flushed)
			}
			s.Ended(asked, never(t))
			s.Started(rewrite.ToolCall{ID: "c2", Name: "t"}, never(t))
			if fmt.Sprint(*counted) != "[late]" || time.Since(began) != maxWait {
				t.Errorf("%s: %v in %v", name, *counted, time.Since(began))
			}
			time.Sleep(2 * time.Hour) // until all handlers have returned
		})
	}
}

// TestWhatIsStoredLate: an answer that lacks the call is asked for once more, a moment later, and both together
// take at most 300 ms.
func TestWhatIsStoredLate(t *testing.T) {
	for name, c := range map[string]struct {
		first time.Duration
		again time.Duration // more than is waited for: no answer
		took  time.Duration
		want  string
	}{
		"stored a moment later":  {time.Millisecond, 2 * time.Millisecond, storesWithin + 3*time.Millisecond, "{} [answered answered]"},
		"no answer then":         {time.Millisecond, time.Hour, maxWait, " [answered late]"},
		"too little time for it": {maxWait - storesWithin, 0, maxWait - storesWithin, " [answered]"},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			s, counted := streamOf(t, t.Context(), func(w http.ResponseWriter, r *http.Request) error {
				n++
				took, rows := c.first, list(user())
				if n > 1 {
					took, rows = c.again, list(user(), calls("c1", "t", `{}`))
				}
				select {
				case <-time.After(took):
				case <-r.Context().Done():
				}
				_, err := io.WriteString(w, rows)
				return err
			})
			began, flushed := time.Now(), 0
			d := s.Started(asked, func() { flushed++ })
			if got := fmt.Sprintf("%s %v", d.Args, *counted); got != c.want || time.Since(began) != c.took || flushed != 1 {
				t.Errorf("%s: %s in %v, sent %d times; want %s in %v", name, got, time.Since(began), flushed, c.want, c.took)
			}
			time.Sleep(2 * time.Hour)
		})
	}
}

// TestOneAnswerServesAllTools: a question is asked only for what is not known yet.
func TestOneAnswerServesAllTools(t *testing.T) {
	n := 0
	rows := []string{user(), calls("c1", "t", `{}`, "c2", "t", `{}`)}
	s, counted := streamOf(t, t.Context(), func(w http.ResponseWriter, r *http.Request) error {
		n++
		if r.URL.Path != "/x/api/sessions/s/messages" || r.URL.RawQuery != "limit=64&order=latest&q=1" || r.Method != http.MethodGet || r.Header.Get(proxy.SessionIDHeader) != "" {
			t.Errorf("asked %s %s", r.Method, r.URL)
		}
		_, err := io.WriteString(w, list(rows...))
		return err
	})
	two, none := rewrite.ToolCall{ID: "c2", Name: "t"}, func() {}
	s.Started(asked, none)
	if d := s.Started(two, never(t)); string(d.Args) != "{}" || d.Result != nil {
		t.Errorf("%s", d.Args)
	}
	rows = append(rows, result("c1", "t", "one"), result("c2", "t", "two"))
	if d := s.Ended(two, none); string(d.Result) != `"two"` || string(d.Args) != "{}" {
		t.Errorf("%s", d.Result)
	}
	if d := s.Ended(asked, never(t)); string(d.Result) != `"one"` {
		t.Errorf("%s", d.Result)
	}
	if n != 2 || fmt.Sprint(*counted) != "[answered answered]" {
		t.Errorf("%d questions, %v", n, *counted)
	}
}

// TestOutcomesOfQuestions: what the handlers do.
func TestOutcomesOfQuestions(t *testing.T) {
	left, leave := context.WithCancel(t.Context())
	for name, c := range map[string]struct {
		next func(http.ResponseWriter, *http.Request) error
		want Outcome
	}{
		"an error":              {func(http.ResponseWriter, *http.Request) error { return errors.New("no") }, Lost},
		"a panic":               {func(http.ResponseWriter, *http.Request) error { panic("no") }, Lost},
		"nothing":               {func(http.ResponseWriter, *http.Request) error { return nil }, Lost},
		"a refusal":             {func(w http.ResponseWriter, _ *http.Request) error { w.WriteHeader(404); return nil }, Refused},
		"a refusal as an error": {func(http.ResponseWriter, *http.Request) error { return caddyhttp.Error(401, errors.New("no")) }, Lost},
		"an early hint": {func(w http.ResponseWriter, _ *http.Request) error {
			w.WriteHeader(103)
			_, err := io.WriteString(w, list(user(), calls("c1", "t", `{}`)))
			return err
		}, Answered},
		"the client leaves": {func(_ http.ResponseWriter, r *http.Request) error { leave(); <-r.Context().Done(); return nil }, Gone},
	} {
		ctx := t.Context()
		if c.want == Gone {
			ctx = left
		}
		s, counted := streamOf(t, ctx, c.next)
		s.Started(asked, func() {})
		if fmt.Sprint(*counted) != fmt.Sprintf("[%s]", c.want) {
			t.Errorf("%s: %v, want %s", name, *counted, c.want)
		}
	}
}

// TestAnAnswerThatIsThereCounts: a client that is slow to take what was there before does not make the upstream late.
func TestAnAnswerThatIsThereCounts(t *testing.T) {
	for range 20 { // a choice among two that are ready is random
		synctest.Test(t, func(t *testing.T) {
			s, counted := streamOf(t, t.Context(), func(w http.ResponseWriter, _ *http.Request) error {
				_, err := io.WriteString(w, list(user(), calls("c1", "t", "{}")))
				return err
			})
			if d := s.Started(asked, func() { time.Sleep(time.Second) }); d.Args == nil || fmt.Sprint(*counted) != "[answered]" {
				t.Errorf("%s, %v", d.Args, *counted)
			}
		})
	}
}

// TestLateIsNoRefusal: reverse_proxy answers a request whose client has left with 499.
func TestLateIsNoRefusal(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			s, counted := streamOf(t, t.Context(), func(w http.ResponseWriter, r *http.Request) error {
				<-r.Context().Done()
				if !errors.Is(context.Cause(r.Context()), context.Canceled) {
					t.Error("the upstream seems to have failed")
				}
				w.WriteHeader(499)
				return nil
			})
			s.Started(asked, func() { time.Sleep(time.Second) })
			if fmt.Sprint(*counted) != "[late]" {
				t.Errorf("%v", *counted)
			}
		})
	}
}

// TestLatenessDoesNotAddUp: a stream whose tools come at once is late by at most 300 ms, however many
// there are, if each answer takes nearly that long. One whose tools take their time is told of all.
func TestLatenessDoesNotAddUp(t *testing.T) {
	for _, takes := range []time.Duration{5 * time.Millisecond, 90 * time.Millisecond, 250 * time.Millisecond} {
		for _, apart := range []time.Duration{0, time.Second} {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				rows := []string{user()}
				s, counted := streamOf(t, t.Context(), func(w http.ResponseWriter, _ *http.Request) error {
					time.Sleep(takes)
					_, err := io.WriteString(w, list(rows...))
					return err
				})
				var late time.Duration
				for i := range 100 {
					id := fmt.Sprint("c", i)
					rows = append(rows, calls(id, "t", "{}"))
					began := time.Now()
					if d := s.Started(rewrite.ToolCall{ID: id, Name: "t"}, func() {}); d.Args != nil {
						n++
					}
					late += time.Since(began)
					time.Sleep(apart)
				}
				switch {
				case apart == 0 && late > maxWait:
					t.Errorf("the stream is late by %v", late)
				case apart == 0 && n == 0, apart > 0 && n != 100:
					t.Errorf("%d tools are told of, if an answer takes %v and they are %v apart: %v", n, takes, apart, *counted)
				}
			})
		}
	}
}

// TestAnotherUpstreamIsDead: a balancer may send the question there first.
func TestAnotherUpstreamIsDead(t *testing.T) {
	n, names := 0, []string{"a", "b", "b", "a"}
	counted := new([]Outcome)
	o := &Options{Results: true, Upstreams: new(Upstreams), Logger: zap.NewNop(), Count: func(o Outcome) { *counted = append(*counted, o) }}
	o.Upstream = func(*http.Request) string { return names[n] }
	r := caddyhttp.PrepareRequest(httptest.NewRequest(http.MethodPost, "/v1/chat/completions", nil), caddy.NewReplacer(), httptest.NewRecorder(), nil)
	r = r.WithContext(behalf.Begin(r, func(w http.ResponseWriter, _ *http.Request) error {
		if n++; names[n] == "b" {
			return errors.New("connection refused")
		}
		_, err := io.WriteString(w, list(user(), calls("c1", "t", "{}")))
		return err
	}))
	d := o.Of(r, http.Header{proxy.SessionIDHeader: {"s"}}).Started(asked, func() {})
	if string(d.Args) != "{}" || fmt.Sprint(*counted) != "[answered]" {
		t.Errorf("%s, %v", d.Args, *counted)
	}
}

// TestAnswersUnderWayEndNoPause: those of other streams that come after a refusal neither end the ten minutes
// nor have the next refusal logged, and what fails within them does not count.
func TestAnswersUnderWayEndNoPause(t *testing.T) {
	var u Upstreams
	now := time.Unix(1e9, 0)
	if !u.note("a", Refused, now) || u.note("a", Answered, now) || u.mayAsk("a", now) || u.note("a", Refused, now) {
		t.Error("an answer has ended the pause")
	}
	for range maxFailed {
		u.note("a", Late, now.Add(pause-1))
	}
	if !u.mayAsk("a", now.Add(pause)) {
		t.Error("the pause takes longer than ten minutes")
	}
	if u.note("a", Late, now.Add(pause)); !u.mayAsk("a", now.Add(pause)) {
		t.Error("one failure is enough")
	}
}
