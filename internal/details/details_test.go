package details

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hermes-sidecar/hermes-sidecar/internal/behalf"
	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// A handler answers requests for what a session has stored.
type handler = func(http.ResponseWriter, *http.Request) error

// asking is what asks, with next as the handler behind it, and what it has counted and logged.
type asking struct {
	Options
	next    handler
	counted []Outcome
	logs    *observer.ObservedLogs
}

func newAsking(next handler) *asking {
	core, logs := observer.New(zap.WarnLevel)
	a := &asking{next: next, logs: logs}
	a.Options = Options{
		Results: true, Upstreams: new(Upstreams), Upstream: func(*http.Request) string { return "a" }, Logger: zap.New(core),
		Count: func(o Outcome) { a.counted = append(a.counted, o) },
	}
	return a
}

// stream returns a stream whose header names a session and has more fields, nil if nothing is asked.
func (a *asking) stream(ctx context.Context, session string, header ...string) rewrite.Details {
	r := caddyhttp.PrepareRequest(httptest.NewRequestWithContext(ctx, http.MethodPost, "/x/v1/chat/completions?q=1", nil), caddy.NewReplacer(), httptest.NewRecorder(), nil)
	r = r.WithContext(behalf.Begin(r, a.next))
	h := http.Header{proxy.SessionIDHeader: {session}}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return a.Of(r, h)
}

// streamOf returns a stream whose questions next answers, and the outcomes that it counts.
func streamOf(t *testing.T, next handler) (rewrite.Details, *[]Outcome) {
	t.Helper()
	a := newAsking(next)
	s := a.stream(t.Context(), "s")
	if s == nil {
		t.Fatal("nothing is asked")
	}
	return s, &a.counted
}

var asked = rewrite.ToolCall{ID: "c1", Name: "t"}

func never(t *testing.T) func() { return func() { t.Error("it waits again") } }

// TestAQuestionWaitsAtMost300ms: once in a stream, whatever the handlers do, and after what was there before was
// sent.
func TestAQuestionWaitsAtMost300ms(t *testing.T) {
	for name, next := range map[string]handler{
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
			s, counted := streamOf(t, next)
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
			s, counted := streamOf(t, func(w http.ResponseWriter, r *http.Request) error {
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
	synctest.Test(t, func(t *testing.T) { // however busy the machine is
		n := 0
		rows := []string{user(), calls("c1", "t", `{}`, "c2", "t", `{}`)}
		s, counted := streamOf(t, func(w http.ResponseWriter, r *http.Request) error {
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
	})
}

// replies answers with a status and a body.
func replies(status int, body string) handler {
	return func(w http.ResponseWriter, _ *http.Request) error {
		w.WriteHeader(status)
		_, err := io.WriteString(w, body)
		return err
	}
}

// TestOutcomesOfQuestions: whatever Hermes or a handler answers, nothing is told of the tool, a stream asks no
// more than three times, and after a refusal no stream asks. The log says so once, with what to do.
func TestOutcomesOfQuestions(t *testing.T) {
	const secret = `{"session_id": "other", "role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "t", "arguments": "{\"a\": \"secret\"}"}}]}`
	ofAnother := func(rows string) handler {
		return replies(200, `{"object": "list", "session_id": "other", "data": [`+rows+`]}`)
	}
	for name, c := range map[string]struct {
		next   handler
		want   Outcome
		asked  int // in three streams
		remedy string
	}{
		"an error":              {func(http.ResponseWriter, *http.Request) error { return errors.New("no") }, Lost, 3, "find out why"},
		"a refusal as an error": {func(http.ResponseWriter, *http.Request) error { return caddyhttp.Error(401, errors.New("no")) }, Lost, 3, "find out why"},
		"a panic":               {func(http.ResponseWriter, *http.Request) error { panic("no") }, Lost, 3, "find out why"},
		"nothing":               {func(http.ResponseWriter, *http.Request) error { return nil }, Lost, 3, "find out why"},
		"half an answer": {func(w http.ResponseWriter, _ *http.Request) error {
			_, _ = io.WriteString(w, list(user())[:40])
			panic(http.ErrAbortHandler)
		}, Lost, 3, "find out why"},
		"404":             {replies(404, `{"error": {}}`), Refused, 1, "0.18 or newer"},
		"401":             {replies(401, `{"error": {}}`), Refused, 1, "allow the key"},
		"403":             {replies(403, "<h1>no</h1>"), Refused, 1, "allow the key"},
		"429":             {replies(429, "{}"), Refused, 1, "find out why"},
		"500":             {replies(500, "500"), Failed, 3, "find out why"},
		"302":             {replies(302, ""), Failed, 3, "find out why"},
		"204":             {replies(204, ""), Failed, 3, "find out why"},
		"garbage":         {replies(200, "\x00\xff{[\"data\": [{"), Unreadable, 3, "find out why"},
		"HTML":            {replies(200, "<html>{}</html>"), Unreadable, 3, "find out why"},
		"deep":            {replies(200, strings.Repeat("[", 1<<20)), Unreadable, 3, "find out why"},
		"too much":        {replies(200, list(row("user", `"content": "`+strings.Repeat("x", maxPage)+`"`))), TooLarge, 1, "0.20 or newer"},
		"no such call":    {replies(200, list(user())), Answered, 3 * maxLacking, ""},
		"another session": {ofAnother(`{"session_id": "other", "role": "user", "content": "x"}, ` + secret), Answered, 3 * maxLacking, ""},
		"other types":     {ofAnother(`{"role": ["assistant"], "tool_calls": {"id": "c1"}}, 7, null, "c1", [[]], {"role": "assistant", "tool_calls": [{"id": {"x": "c1"}, "function": "t"}, null, [{}]]}`), Answered, 3 * maxLacking, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			a := newAsking(c.next)
			for range 3 {
				s := a.stream(t.Context(), "s")
				started, ended := s.Started(asked, func() {}), s.Ended(asked, func() {})
				if started.Args != nil || ended.Args != nil || ended.Result != nil {
					t.Errorf("%s: told %s %s %s", name, started.Args, ended.Args, ended.Result)
				}
			}
			if want := slices.Repeat([]Outcome{c.want}, c.asked); !slices.Equal(a.counted, want) {
				t.Errorf("%s: %v, want %v", name, a.counted, want)
			}
			logged := fmt.Sprint(a.logs.All())
			if n := a.logs.Len(); n != min(1, len(c.remedy)) || !strings.Contains(logged, c.remedy) || strings.Contains(logged, "secret") {
				t.Errorf("%s: %d lines are logged: %s", name, n, logged)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s, counted := streamOf(t, func(w http.ResponseWriter, _ *http.Request) error {
			w.WriteHeader(103)
			_, err := io.WriteString(w, list(user(), calls("c1", "t", `{}`)))
			return err
		})
		if d := s.Started(asked, func() {}); string(d.Args) != "{}" || fmt.Sprint(*counted) != "[answered]" {
			t.Errorf("an early hint: %s, %v", d.Args, *counted)
		}
		ctx, leave := context.WithCancel(t.Context())
		left := newAsking(func(_ http.ResponseWriter, r *http.Request) error { leave(); <-r.Context().Done(); return nil })
		if left.stream(ctx, "s").Started(asked, func() {}); fmt.Sprint(left.counted) != "[client_gone]" || len(left.Upstreams.of) > 0 {
			t.Errorf("the client leaves: %v", left.counted)
		}
	})
}

// TestSessionsThatAreNotAskedFor have an id that is no part of a path, too long, or none.
func TestSessionsThatAreNotAskedFor(t *testing.T) {
	a := newAsking(nil)
	for _, id := range []string{"", "..", ".", "a/../../v1/models", `a\b`, "a%2fb", "a b", "a?b", "a#b", strings.Repeat("x", maxSessionID+1)} {
		if a.stream(t.Context(), id) != nil {
			t.Errorf("%q is asked for", id)
		}
	}
	if a.stream(t.Context(), strings.Repeat("x", maxSessionID)) == nil {
		t.Error("a long one is not asked for")
	}
}

// TestCallsBeforeTheAnswer: an agent that stores a turn when it ends (0.16) has only the turn before, with the
// same id and name, until then. The answer's header says when it began, by the agent's clock.
func TestCallsBeforeTheAnswer(t *testing.T) {
	began := time.Unix(1e9, 0)
	for stored, want := range map[time.Time]string{began.Add(-9 * time.Second): "", began.Add(time.Second): "{}"} {
		row := func(text string) string {
			return strings.Replace(text, `"timestamp": 1.5`, fmt.Sprintf(`"timestamp": %d.5`, stored.Unix()), 1)
		}
		synctest.Test(t, func(t *testing.T) {
			a := newAsking(replies(200, list(row(user()), row(calls("c1", "t", "{}")), row(result("c1", "t", "old")), row(end))))
			s := a.stream(t.Context(), "s", "Date", began.UTC().Format(http.TimeFormat))
			if d := s.Started(asked, func() {}); string(d.Args) != want {
				t.Errorf("of a call %v after the beginning is told %q", stored.Sub(began), d.Args)
			}
		})
	}
}

// TestAnAnswerThatIsThereCounts: a client that is slow to take what was there before does not make the upstream late.
func TestAnAnswerThatIsThereCounts(t *testing.T) {
	for range 20 { // a choice among two that are ready is random
		synctest.Test(t, func(t *testing.T) {
			s, counted := streamOf(t, func(w http.ResponseWriter, _ *http.Request) error {
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
			s, counted := streamOf(t, func(w http.ResponseWriter, r *http.Request) error {
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
				s, counted := streamOf(t, func(w http.ResponseWriter, _ *http.Request) error {
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

// TestAnotherUpstream: a balancer may send the question there first. It may be dead, or have a session of the same
// id, because that of another chat began alike.
func TestAnotherUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, names := 0, []string{"a", "b", "b", "a"}
		a := newAsking(func(w http.ResponseWriter, _ *http.Request) error {
			args := `{}`
			switch n++; n {
			case 1:
				return errors.New("connection refused")
			case 2:
				args = `{"of":"b"}`
			}
			_, err := io.WriteString(w, list(user(), calls("c1", "t", args)))
			return err
		})
		a.Upstream = func(*http.Request) string { return names[n] }
		d := a.stream(t.Context(), "s").Started(asked, func() {})
		if string(d.Args) != "{}" || fmt.Sprint(a.counted) != "[answered]" || n != 3 {
			t.Errorf("%s, %v after %d questions", d.Args, a.counted, n)
		}
	})
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
