package queuehttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/proxy"
	"github.com/hermes-sidecar/hermes-sidecar/queue"
)

// tooManyRuns is the body with which Hermes refuses a run.
const tooManyRuns = `{"error": {"message": "Too many concurrent runs (max 10)", "type": "rate_limit_error", "param": null, "code": "rate_limit_exceeded"}}`

// wantRefused checks that the client got upstream's refusal, as it was.
func (l *inLine) wantRefused(after string) {
	l.T.Helper()
	equal(l.T, l.Rec.Status, 429, "status")
	equal(l.T, l.Rec.Sent.Get("X-Refused"), "yes", "the refusal's header")
	equal(l.T, l.Rec.Sent.Get("Retry-After"), after, "Retry-After")
	l.WantBody(tooManyRuns)
}

// refuses has the next handler refuse the request as Hermes does.
func (l *inLine) refuses(after string) {
	l.T.Helper()
	l.Do(func() {
		l.W.Header().Set("X-Refused", "yes")
		l.W.Header().Set("Content-Type", "application/json")
		if after != "" {
			l.W.Header().Set("Retry-After", after)
		}
		l.W.WriteHeader(429)
		_, _ = io.WriteString(l.W, tooManyRuns)
		_ = http.NewResponseController(l.W).Flush()
	})
}

// nextTry ends the handler that has refused, in the way how, and waits until it runs again.
func (l *inLine) nextTry(how func() error) {
	l.T.Helper()
	l.Last(how)
	<-l.Ack
}

// TestUpstreamRefuses: its 429 sends the request back into the line, and it comes again as it was.
func TestUpstreamRefuses(t *testing.T) {
	for name, how := range map[string]func() error{
		"and ends": func() error { return nil }, "and aborts": func() error { panic(http.ErrAbortHandler) }, "and fails": func() error { return errTest },
	} {
		bubble(t, name, func(t *testing.T) {
			polluted := `{"stream":true,"messages":[{"role":"assistant","content":"Look.\n` + "`💻 ls`" + `\nDone."}]}`
			x := waits(t, 0, body(polluted), func(_ *options, r *http.Request, rec *recorder) {
				rec.Fields.Set("X-Front", "yes")
				r.Header.Set("X-Mine", "yes")
			})
			<-x.Ack
			hear := func() (heard string) {
				x.Do(func() {
					x.Up.Header.Add("X-Mine", "again")
					x.Up.URL.Path += "/x"
					b, err := io.ReadAll(x.Up.Body)
					heard = fmt.Sprint(x.Up.Header, x.Up.URL, x.Up.ContentLength, string(b), err, x.Up.Body.Close(), x.W.Header())
				})
				return heard
			}
			first, begun := hear(), time.Now()
			for range 3 {
				x.refuses("2")
				x.nextTry(how)
				equal(t, hear(), first, "what upstream hears again")
			}
			if took := time.Since(begun); took < 6*time.Second {
				t.Errorf("3 tries took %v", took)
			}
			x.Stream()
			other, err := x.lines.Join("b", queue.Options{Runs: 2}, queue.Client{3})
			if err != nil {
				t.Fatal("upstream has taken the request, but another one has to wait:", err)
			}
			other.Done()
			x.Write(role, text("a"), fullStop, done)
			x.Ret(nil).WantSwallowed(t)
			x.WantBody(shown(youAreNext) + over() + role + text("a") + fullStop + done)
			equal(t, x.Rec.Sent.Get("X-Refused")+x.Rec.Fields.Get("X-Refused"), "", "the refusal's header")
			equal(t, x.Rec.Sent.Get("X-Front"), "yes", "the header of handlers in front")
			equal(t, len(x.Ends), 1, "ends observed")
			equal(t, x.Result().Outcome, proxy.OutcomeOK, "outcome")
			x.wantFree()
		})
	}
	bubble(t, "of a user whom upstream is told", func(t *testing.T) {
		name := func(*http.Request) string { return "alice" }
		x := waits(t, 0, header(proxy.SessionKeyHeader, "mallory"), header(proxy.SessionIDHeader, "mallory"), option(func(o *options) {
			o.Identity = proxy.Identity{Header: name, Session: name}
		}))
		<-x.Ack
		first := fmt.Sprint(x.Up.Header)
		x.refuses("1")
		x.nextTry(func() error { return nil })
		equal(t, fmt.Sprint(x.Up.Header), first, "what upstream hears again")
		equal(t, x.Up.Header.Get(proxy.SessionKeyHeader), "alice", "the user")
		x.Ret(nil)
	})
	bubble(t, "and cannot be reached then", func(t *testing.T) {
		x := waits(t, 0, statusOf(502))
		<-x.Ack
		x.Do(func() { x.try(true) })
		x.refuses("1")
		x.nextTry(func() error { return nil })
		x.Do(func() { x.try(false) })
		x.Ret(errTest).WantSwallowed(t)
		equal(t, strings.Contains(x.Rec.Body.String(), "the agent could not be reached"), true, "nothing runs")
		x.wantFree()
	})
	bubble(t, "after an informational status", func(t *testing.T) {
		x := waits(t, 0)
		<-x.Ack
		x.Do(func() { x.W.WriteHeader(http.StatusEarlyHints) })
		x.WantLog("header 103")
		x.refuses("2")
		x.nextTry(func() error { return nil })
		x.Stream()
		x.Write(role, text("a"), fullStop, done)
		x.Ret(nil).WantSwallowed(t)
		x.WantBody(shown(youAreNext) + over() + role + text("a") + fullStop + done)
	})
	bubble(t, "and panics", func(t *testing.T) {
		x := waits(t, 0)
		<-x.Ack
		x.refuses("1")
		x.Panics("boom").Want(t, "panic")
		x.wantFree()
	})
	bubble(t, "forever", func(t *testing.T) {
		x := waits(t, 0, body(`{"messages":[]}`))
		<-x.Ack
		x.Start(func() {})
		for i := 0; ; i++ {
			select {
			case <-x.Ack:
				x.refuses("")
				x.Last(func() error { return nil })
				continue
			case e := <-x.Ended:
				x.Over = true
				e.WantSwallowed(t)
			}
			if i < 50 || i > 70 {
				t.Errorf("%d tries within a minute", i)
			}
			break
		}
		x.wantRefused("")
		x.wantFree()
	})
	for name, after := range map[string]string{
		"for too long": "3600", "for too long, a date": "Wed, 21 Oct 2099 07:28:00 GMT", "for all time": "9223372036854775807",
	} {
		bubble(t, name, func(t *testing.T) {
			x := waits(t, 0, body(`{"messages":[]}`))
			<-x.Ack
			x.refuses(after)
			begun := time.Now()
			x.Last(func() error { return nil })
			x.end().WantSwallowed(t)
			equal(t, time.Since(begun), time.Minute, "the wait")
			x.wantRefused(after)
			x.wantFree()
		})
		bubble(t, name+", and a place comes free", func(t *testing.T) {
			x := waits(t, 0)
			x.o.Runs = 2
			other, err := x.lines.Join("b", x.o, queue.Client{3})
			if err != nil {
				t.Fatal(err)
			}
			<-x.Ack
			x.refuses(after)
			x.Last(func() error { return nil })
			advance(time.Second)
			other.Done()
			<-x.Ack
			x.Stream()
			x.Write(role, text("a"), fullStop, done)
			x.Ret(nil).WantSwallowed(t)
			x.WantBody(shown(youAreNext) + over() + role + text("a") + fullStop + done)
			x.wantFree()
		})
	}
	bubble(t, "a body that is not whole", func(t *testing.T) {
		x := waits(t, 0, header("Incremental", "?1"))
		<-x.Ack
		x.refuses("1")
		x.Ret(nil).WantSwallowed(t)
		x.wantRefused("1")
		x.wantFree()
	})
	bubble(t, "for too long after the header", func(t *testing.T) {
		x := waits(t, 1, limits("keepalive=25s"))
		advance(time.Second)
		x.goesOn()
		x.refuses("3600")
		x.Last(func() error { return nil })
		advance(time.Minute)
		x.end().WantSwallowed(t)
		x.WantBody(shown(youAreNext) + strings.Repeat("data: {"+idle+"}\n\n", 2) +
			hides() + errorOf(`{"message": "Too many concurrent runs (max 10)", "type": "rate_limit_error", "param": null, "code": "rate_limit_exceeded"}`, `"Too many concurrent runs (max 10)"`))
	})
	bubble(t, "and the client leaves", func(t *testing.T) {
		x := waits(t, 0)
		<-x.Ack
		x.refuses("10")
		x.Last(func() error { return nil })
		synctest.Wait()
		x.Leave()
		x.end().WantSwallowed(t)
		equal(t, x.Result().Outcome, proxy.OutcomeClientGone, "outcome")
		x.wantFree()
	})
	bubble(t, "in a drain", func(t *testing.T) {
		x := waits(t, 0, limits("drain=10s"))
		<-x.Ack
		x.Streams.Shutdown(0)
		x.refuses("1")
		x.Last(func() error { return nil })
		x.end().WantSwallowed(t)
		x.WantAnswerOf(502, "shutting_down", false)
		x.wantFree()
	})
}

// TestRetryAfter: the request is sent again when upstream has asked for that, and after a second if what it says
// is no time to come.
func TestRetryAfter(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"": 1, "2": 2, " 3 ": 3, "Sat, 01 Jan 2000 00:00:05 GMT": 5,
		"-5": 1, "0": 1, "0.5": 1, "soon": 1, "99999999999999999999999999": 1, "Wed, 21 Oct 1999 07:28:00 GMT": 1,
	} {
		bubble(t, value, func(t *testing.T) {
			x := waits(t, 0, body(`{"messages":[]}`))
			<-x.Ack
			x.refuses(value)
			begun := time.Now()
			x.nextTry(func() error { return nil })
			equal(t, time.Since(begun), want*time.Second, "the next try comes after")
			x.Ret(nil)
		})
	}
}

// TestOtherRefusals: a 429 that is not Hermes' own may come after the agent has begun, such as that of
// the model's provider. It is the answer, byte for byte, and the agent is not asked again.
func TestOtherRefusals(t *testing.T) {
	const provider = `{"error": {"message": "Rate limit reached for gpt-5", "type": "tokens", "param": null, "code": "rate_limit_exceeded"}}`
	for name, c := range map[string]struct {
		media, encoding, body string
		end                   error
	}{
		"of a provider":            {media: "application/json", body: provider},
		"with another code":        {media: "application/json", body: strings.Replace(tooManyRuns, "rate_limit_exceeded", "agent_error", 1)},
		"that quotes Hermes'":      {media: "application/json", body: strings.Replace(tooManyRuns, "Too many", "429: Too many", 1)},
		"with an empty body":       {media: "application/json"},
		"with an empty object":     {media: "application/json", body: "{}"},
		"of no object":             {media: "application/json", body: "[" + tooManyRuns + "]"},
		"with more than an object": {media: "application/json", body: tooManyRuns + tooManyRuns},
		"that is no JSON":          {media: "application/json", body: strings.Replace(tooManyRuns, `"code"`, "code", 1)},
		"that is too large":        {media: "application/json", body: strings.Replace(tooManyRuns, "}}", strings.Repeat(" ", 16<<10)+"}}", 1)},
		"of another media type":    {media: "text/html", body: tooManyRuns},
		"of events":                {media: "text/event-stream", body: "data: " + tooManyRuns + "\n\n"},
		"compressed":               {media: "application/json", encoding: "gzip", body: tooManyRuns},
		"that breaks off":          {media: "application/json", body: tooManyRuns[:50], end: http.ErrAbortHandler},
	} {
		for way, told := range map[string]bool{"": false, ", to a client that was told": true} {
			bubble(t, name+way, func(t *testing.T) {
				x := waits(t, 1, body(asksForStream))
				if told {
					advance(time.Second)
				}
				x.goesOn()
				x.Do(func() {
					x.W.Header().Set("Content-Type", c.media)
					if c.encoding != "" {
						x.W.Header().Set("Content-Encoding", c.encoding)
					}
					x.W.Header().Set("Retry-After", "1")
					x.W.WriteHeader(429)
				})
				for _, b := range []byte(c.body) {
					if _, err := x.TryWrite(string(b)); err != nil {
						t.Fatal(err)
					}
				}
				if c.end != nil {
					x.Panics(c.end)
				} else {
					x.Ret(nil).WantSwallowed(t)
				}
				if told {
					equal(t, strings.HasSuffix(x.Rec.Body.String(), done), true, "the stream ends")
				} else {
					equal(t, x.Rec.Status, 429, "status")
					equal(t, x.Rec.Sent.Get("Retry-After"), "1", "Retry-After")
					x.WantBody(c.body)
				}
				x.wantFree()
			})
		}
	}
}

// deadlined is an inner writer with a deadline.
type deadlined struct {
	*recorder
	deadline time.Time
}

func (w *deadlined) SetWriteDeadline(d time.Time) error {
	w.deadline = d
	return nil
}

func (w *deadlined) Write(b []byte) (int, error) {
	if !w.deadline.IsZero() && !time.Now().Before(w.deadline) {
		return 0, context.DeadlineExceeded
	}
	return w.recorder.Write(b)
}

// TestRefusedTriesLeaveNoDeadline: one that a handler has set for its writes is gone with its answer.
func TestRefusedTriesLeaveNoDeadline(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		var w *deadlined
		x := waits(t, 0, limits("keepalive=1s"), func(_ *options, _ *http.Request, rec *recorder) {
			w = &deadlined{recorder: rec}
			rec.Wrapped = w
		})
		<-x.Ack
		x.Do(func() { _ = http.NewResponseController(x.W).SetWriteDeadline(time.Now().Add(time.Second)) })
		x.refuses("10")
		x.nextTry(func() error { return nil })
		x.Stream()
		x.Write(role, text("Hello"), fullStop, done)
		x.Ret(nil).WantSwallowed(t)
		equal(t, strings.HasPrefix(w.Body.String(), shown(youAreNext)+"data: {"+idle+"}\n\n"), true, "it is told")
		equal(t, strings.HasSuffix(w.Body.String(), role+text("Hello")+fullStop+done), true, "it gets the answer")
		equal(t, w.deadline.IsZero(), true, "no deadline")
	})
}
