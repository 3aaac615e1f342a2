package resume_test

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/proxytest"
	"github.com/hermes-sidecar/hermes-sidecar/resume"
	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

const replayed = "Idempotency-Replayed"

// sdk is a chat of an SDK, which has sent it n times before, with fields.
func sdk(n int, header ...string) request {
	return chat(append(header, retryHeader, strconv.Itoa(n))...)
}

// sdkWhole is sdk for an answer that is not streamed.
func sdkWhole(n int, header ...string) request {
	q := sdk(n, header...)
	q.body = `{"messages":[]}`
	return q
}

// answersWhole is a next handler that answers with JSON when the channel says so.
func answersWhole(each <-chan struct{}) resume.Next {
	return func(w http.ResponseWriter, r *http.Request) error {
		select {
		case <-each:
		case <-r.Context().Done():
			return r.Context().Err()
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "9")
		w.Header().Set("Set-Cookie", "a=b")
		w.WriteHeader(http.StatusAccepted)
		_, err := io.WriteString(w, `{"id":"a`[:8]+"}")
		return err
	}
}

// TestRepeatsOfSDKsJoin the run of the first request, streamed or not, whether its connection broke
// before the answer began, in it, or after its end: upstream is asked once.
func TestRepeatsOfSDKsJoin(t *testing.T) {
	t.Run("a stream", func(t *testing.T) {
		each := make(chan struct{})
		l := newLab(t, nil, streams(events(3), each))
		l.leaveEarly(sdk(0))
		until(t, "it goes on", func() bool { return l.runs.Stats().Detached == 1 })
		go func() { each <- struct{}{} }()
		r := l.send(sdk(1))
		r.next()
		r.leave()
		close(each)
		for n := 2; n < 4; n++ { // as it goes on or has ended, and after
			again := l.send(sdk(n)).want(http.StatusOK)
			if got := again.rest(); got != numbered(r.id(), 1, events(3)...) || again.Header.Get(replayed) != "true" {
				t.Errorf("%v %q", again.Header, got)
			}
		}
		l.wantAsked(1)
	})
	t.Run("no stream", func(t *testing.T) {
		each := make(chan struct{})
		l := newLab(t, nil, answersWhole(each))
		l.leaveEarly(sdkWhole(0))
		until(t, "it goes on", func() bool { return l.runs.Stats().Detached == 1 })
		go close(each)
		for n := 1; n < 4; n++ {
			again := l.send(sdkWhole(n)).want(http.StatusAccepted)
			if got := again.rest(); got != `{"id":"a}` || again.Header.Get(replayed) != "true" || again.ContentLength != 9 ||
				again.Header.Get("Content-Type") != "application/json" || again.Header.Get("Set-Cookie") != "" || again.id() != "" {
				t.Errorf("%v %q", again.Header, got)
			}
		}
		l.wantAsked(1)
	})
}

// TestOthersDoNotJoin what an SDK has asked.
func TestOthersDoNotJoin(t *testing.T) {
	l := newLab(t, nil, streams(events(2), always()))
	first := l.send(sdk(0, "Authorization", "Bearer a"))
	id := first.id()
	first.rest()
	otherBody, otherPlace, otherQuery := sdk(1, "Authorization", "Bearer a"), sdk(1, "Authorization", "Bearer a"), sdk(1, "Authorization", "Bearer a")
	otherBody.body += " "
	otherPlace.path = "/elsewhere"
	otherQuery.path += "?a=1"
	for name, q := range map[string]request{
		"another client": sdk(1, "Authorization", "Bearer b"),
		"no credentials": sdk(1), "another body": otherBody, "another path": otherPlace, "another query": otherQuery,
		"another session": sdk(1, "Authorization", "Bearer a", "X-Hermes-Session-Id", "s"),
		"another memory":  sdk(1, "Authorization", "Bearer a", "X-Hermes-Session-Key", "s"),
		"another form":    sdk(1, "Authorization", "Bearer a", "X-Hermes-Tool-Progress", "off"),
		"a key":           sdk(1, "Authorization", "Bearer a", key, "k"),
	} {
		if r := l.send(q).want(http.StatusOK); r.id() == id || r.id() == "" || r.Header.Get(replayed) != "" {
			t.Errorf("%s: %v", name, r.Header)
		}
	}
	l.wantAsked(10)
}

// TestHeadersThatAreNoneOfSDKs ask for nothing.
func TestHeadersThatAreNoneOfSDKs(t *testing.T) {
	l := newLab(t, nil, streams(events(1), always()))
	form := sdk(0)
	form.header = []string{"Content-Type", "multipart/form-data; boundary=a", retryHeader, "0"}
	for _, q := range []request{
		form,
		chat(retryHeader, ""), chat(retryHeader, "x"), chat(retryHeader, "-1"), chat(retryHeader, "0x1"),
		chat(retryHeader, "0", retryHeader, "1"),
		sdk(0, resume.DetachHeader, "0s"), // which switches it off
	} {
		if r := l.send(q).want(http.StatusOK); r.id() != "" || r.rest() != event(1) {
			t.Errorf("%v is kept", q.header)
		}
	}
}

// TestFirstRequestOfAnSDKRunsAnew and takes the key: the user has asked the same again. What ran
// before goes on, and stays for whoever knows its id.
func TestFirstRequestOfAnSDKRunsAnew(t *testing.T) {
	more, calls := make(chan struct{}), 0
	l := newLab(t, nil, func(w http.ResponseWriter, r *http.Request) error {
		if calls++; calls > 1 {
			return silent(w, r)
		}
		_ = streams(events(1), always())(w, r)
		<-more
		_, err := io.WriteString(w, event(2))
		return err
	})
	old := l.send(sdk(0))
	old.next()
	second := l.send(sdk(0))
	second.next()
	if old.id() == second.id() {
		t.Error("it is the same")
	}
	if r := l.send(sdk(1)); r.id() != second.id() {
		t.Errorf("the repeat has %s, want %s", r.id(), second.id())
	}
	l.wantAsked(2)
	close(more)
	old.wantNext(numbered(old.id(), 2, event(2)))
	l.send(request{http.MethodGet, chatPath + "/" + old.id(), "", nil}).want(http.StatusOK).wantRest(numbered(old.id(), 1, events(2)...))
	l.send(request{http.MethodDelete, chatPath + "/" + old.id(), "", nil}).want(http.StatusNoContent)
	if r := l.send(sdk(1)); r.id() != second.id() {
		t.Error("the end of the old one has freed the key of the new one")
	}
}

// TestTimesOfSDKs are short, unless a request or the configuration asks for more.
func TestTimesOfSDKs(t *testing.T) {
	short := func(o *resume.Options) { o.Detach, o.Keep = 5*time.Second, 30*time.Second }
	for name, c := range map[string]struct {
		set                func(*resume.Options)
		header             []string
		goesOn, keep, join time.Duration
	}{
		"by default":      {nil, nil, 10 * time.Second, time.Minute, time.Minute},
		"shorter options": {short, nil, 5 * time.Second, 30 * time.Second, 30 * time.Second},
		"always":          {func(o *resume.Options) { o.Always = true }, nil, 10 * time.Minute, 5 * time.Minute, time.Minute},
		"a header":        {nil, []string{resume.DetachHeader, "2m"}, 2 * time.Minute, 5 * time.Minute, time.Minute},
	} {
		proxytest.Bubble(t, name, func(t *testing.T) {
			l := newPipeLab(t, c.set, silent)
			id := l.leaves(sdk(0, c.header...)).id()
			l.wantDetached(1)
			l.wantExpires(c.goesOn)
			get := request{http.MethodGet, chatPath + "/" + id, "", nil}
			time.Sleep(c.join - 1)
			if got := l.send(sdk(1, c.header...)); got.id() != id || !strings.Contains(got.rest(), "[DONE]") {
				t.Errorf("%v", got.Header)
			}
			l.wantAsked(1)
			if c.keep > c.join {
				time.Sleep(1)
				other := l.send(sdk(1, c.header...))
				if other.id() == id {
					t.Error("it joins too late")
				}
				l.wantAsked(2)
				time.Sleep(c.keep - c.join - 1)
				l.send(get).want(http.StatusOK)
			}
			time.Sleep(1)
			synctest.Wait()
			l.send(get).want(http.StatusNotFound)
		})
	}
}

// TestWholeAnswersOfSDKsGoOn for ten seconds when their client leaves, before they begin and in them.
func TestWholeAnswersOfSDKsGoOn(t *testing.T) {
	for _, begins := range []bool{false, true} {
		inBubble(t, nil, func(w http.ResponseWriter, r *http.Request) error {
			if begins {
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, "{")
				_ = http.NewResponseController(w).Flush()
			}
			<-r.Context().Done()
			return nil
		}, func(t *testing.T, l *lab) {
			if begins {
				l.send(sdkWhole(0)).want(http.StatusOK).leave()
			} else {
				l.leaveEarly(sdkWhole(0))
			}
			l.wantDetached(1)
			if l.wantExpires(10 * time.Second).Stream {
				t.Error("it counts as a stream")
			}
			synctest.Wait()
			l.wantEmpty() // a part of it is no answer
		})
	}
}

// TestAnswersOfSDKsAreTheSame compares what the first client of an SDK's request gets of answers
// that are no event streams with what it gets without resume, and what a repeat gets with that.
func TestAnswersOfSDKsAreTheSame(t *testing.T) {
	more := map[string]http.HandlerFunc{
		"a large one": func(w http.ResponseWriter, _ *http.Request) {
			for range 100 {
				_, _ = io.WriteString(w, strings.Repeat("x", 5000))
			}
		},
		"a page without a type": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "<!DOCT")
			_, _ = io.WriteString(w, "YPE html>")
		},
		"created": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "2")
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, "{}")
		},
		"only a header, flushed": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-A", "1")
			_ = http.NewResponseController(w).Flush()
		},
		"a header that is too large": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Large", strings.Repeat("x", 17<<10))
			_, _ = io.WriteString(w, "{}")
		},
		"shorter than it says": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "a")
			panic(http.ErrAbortHandler)
		},
	}
	maps.Copy(more, answers)
	kept := map[string]bool{
		"an echo": true, "JSON": true, "a compressed stream": true, "no content": true, "flushed": true, "trailers": true,
		"early hints": true, "a large one": true, "a page without a type": true, "created": true, "only a header, flushed": true,
	}
	for name, h := range more {
		for _, version := range []string{"1.1", "1.0"} {
			t.Run(name+" "+version, func(t *testing.T) {
				asked := 0
				ask := func(h http.Handler, n int) string {
					t.Helper()
					answer, _ := bare(t, h, version, fmt.Sprintf("X-Stainless-Retry-Count: %d\r\nContent-Type: application/json\r\n", n))
					return answer
				}
				o := resume.DefaultOptions()
				o.Runs = new(resume.Runs)
				with := resume.New(o).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					asked++
					h(w, r)
				}))
				want := ask(h, 0)
				if got := ask(with, 0); oneChunk(got) != oneChunk(want) {
					t.Fatalf("the first gets\n%.1000s\nwant\n%.1000s", got, want)
				}
				until(t, "the end of the run", func() bool { return o.Runs.Open() == 0 })
				again := ask(with, 1)
				if is := asked == 1; is != kept[name] {
					t.Fatalf("upstream was asked %d times", asked)
				}
				if !kept[name] || name == "trailers" || name == "early hints" {
					return
				}
				is, got := parts(t, again)
				was, body := parts(t, want)
				if is.Get(replayed) != "true" || got != body {
					t.Errorf("again it is\n%.1000s", again)
				}
				for field := range was {
					if is.Get(field) != was.Get(field) && field != "Content-Length" {
						t.Errorf("%s is %q, was %q", field, is.Get(field), was.Get(field))
					}
				}
			})
		}
	}
}

// oneChunk returns an answer with its chunks in one: their sizes depend on the time.
func oneChunk(answer string) string {
	head, rest, ok := strings.Cut(answer, "chunked\r\n\r\n")
	if !ok {
		return answer
	}
	var all strings.Builder
	for {
		line, after, _ := strings.Cut(rest, "\r\n")
		n, err := strconv.ParseUint(line, 16, 32)
		if err != nil || n == 0 || len(after) < int(n)+2 {
			return head + "chunked\r\n\r\n" + all.String() + rest
		}
		all.WriteString(after[:n])
		rest = after[n+2:]
	}
}

// parts returns the header and the body of an answer.
func parts(t *testing.T, answer string) (http.Header, string) {
	t.Helper()
	res, err := http.ReadResponse(bufio.NewReader(strings.NewReader(answer)), nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.Header, string(b)
}

// TestRepeatRunsIfTheFirstFails: an SDK repeats in order to get another answer, and neither a status
// of a failure nor a part of a body is one.
func TestRepeatRunsIfTheFirstFails(t *testing.T) {
	for name, fail := range map[string]resume.Next{
		"a status": func(w http.ResponseWriter, _ *http.Request) error {
			http.Error(w, "no", http.StatusBadGateway)
			return nil
		},
		"a part": func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Length", "9")
			_, _ = io.WriteString(w, "{")
			panic(http.ErrAbortHandler)
		},
		"an error":        func(http.ResponseWriter, *http.Request) error { return io.ErrUnexpectedEOF },
		"an error, later": func(w http.ResponseWriter, _ *http.Request) error { w.WriteHeader(200); return io.ErrUnexpectedEOF },
	} {
		t.Run(name, func(t *testing.T) {
			may, calls := make(chan struct{}), 0
			l := newLab(t, nil, func(w http.ResponseWriter, r *http.Request) error {
				if calls++; calls == 1 {
					<-may
					return fail(w, r)
				}
				return answersWhole(always())(w, r)
			})
			l.leaveEarly(sdkWhole(0))
			until(t, "it goes on", func() bool { return l.runs.Stats().Detached == 1 })
			var answer <-chan *reply
			if name == "a status" || name == "an error" { // nothing of it reaches the one that waits
				answer = l.sending(sdkWhole(1))
				until(t, "the repeat waits", func() bool { return l.runs.Stats().Detached == 0 })
				close(may)
			} else {
				close(may)
				l.over()
				answer = l.sending(sdkWhole(1))
			}
			if r := (<-answer).want(http.StatusAccepted); r.rest() != `{"id":"a}` || r.Header.Get(replayed) != "" {
				t.Errorf("%v", r.Header)
			}
			l.wantAsked(2)
		})
	}
}

// TestAnswerOfAnSDKThatIsTooLarge is whole for the first client. A repeat runs anew, also of a key.
func TestAnswerOfAnSDKThatIsTooLarge(t *testing.T) {
	for _, header := range [][]string{nil, {key, "k"}} {
		large := strings.Repeat("x", 300<<10)
		l := newLab(t, func(o *resume.Options) { o.MaxStream = 64 << 10 }, func(w http.ResponseWriter, _ *http.Request) error {
			_, err := io.WriteString(w, large)
			return err
		})
		for n := range 2 {
			if r := l.send(sdkWhole(n, header...)); r.rest() != large || r.Header.Get(replayed) != "" {
				t.Errorf("%v", r.Header)
			}
			l.over()
		}
		l.wantAsked(2)
		if used, _ := l.store.Used(); used > 2*(64<<10)+(8<<10) {
			t.Errorf("%d bytes are kept", used)
		}
	}
	// A stream that has lost its beginning is no answer to a repeat either.
	l := newLab(t, func(o *resume.Options) { o.MaxStream = 64 << 10 }, streams(events(10_000), always()))
	l.send(sdk(0)).rest()
	if r := l.send(sdk(1)).want(http.StatusOK); r.Header.Get(replayed) != "" {
		t.Error("replayed")
	}
	l.wantAsked(2)
}

// TestBodyThatIsFlushed comes as it does without resume.
func TestBodyThatIsFlushed(t *testing.T) {
	more := make(chan struct{})
	l := newLab(t, nil, func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "[1,\n")
		_ = http.NewResponseController(w).Flush()
		<-more
		_, err := io.WriteString(w, "2]")
		return err
	})
	first := l.send(sdkWhole(0)).want(http.StatusOK)
	repeat := l.send(sdkWhole(1)).want(http.StatusOK)
	for _, r := range []*reply{first, repeat} {
		if line, err := r.in.ReadString('\n'); line != "[1,\n" || err != nil {
			t.Errorf("%q, %v", line, err)
		}
	}
	close(more)
	if first.rest() != "2]" || repeat.rest() != "2]" {
		t.Error("not all")
	}
	l.wantAsked(1)
}

// TestPanicInABody is told if its client has left, or was sent what looks like an answer that breaks off.
func TestPanicInABody(t *testing.T) {
	for _, cancelled := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			up := newScript("{")
			up.media, up.stays = "application/json", true
			l := newPipeLab(t, nil, up.next)
			r := l.send(sdkWhole(0)).want(http.StatusOK)
			if cancelled {
				l.runs.Shutdown(1)
				time.Sleep(1)
			} else {
				r.leave()
			}
			synctest.Wait()
			up.end(func() error { panic("boom") })
			if e := l.over(); e.Panicked == nil || (e.Reason == log.ReasonShutdown) != cancelled {
				t.Errorf("%+v", e)
			}
			if !cancelled {
				l.wantEmpty()
			} else if got := r.broken(); got != "{" {
				t.Errorf("%q", got)
			}
		})
	}
}

// TestKeyOfAnSDKKeepsWholeAnswers: what has a key and is an SDK's is kept as long as its stream.
func TestKeyOfAnSDKKeepsWholeAnswers(t *testing.T) {
	inBubble(t, nil, answersWhole(always()), func(t *testing.T, l *lab) {
		for n := range 2 {
			r := l.send(sdkWhole(0, key, "k")).want(http.StatusAccepted)
			if is := r.Header.Get(replayed) == "true"; r.rest() != `{"id":"a}` || is != (n > 0) {
				t.Errorf("%v", r.Header)
			}
			synctest.Wait()
			time.Sleep(time.Duration(1-n) * (5*time.Minute - 1))
		}
		other := sdkWhole(0, key, "k")
		other.body += " "
		problemOf(t, l.send(other), http.StatusUnprocessableEntity)
		l.wantAsked(1)
	})
}
