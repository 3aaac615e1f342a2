package resume_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// chatID is a header of which the tests make keys.
const chatID = "X-Chat-Id"

// byHeader makes keys of the values of headers. Without any of them there is no key.
func byHeader(body bool, names ...string) func(*resume.Options) {
	return func(o *resume.Options) {
		o.KeyBody = body
		o.Key = func(r *http.Request) (values []string) {
			found := false
			for _, name := range names {
				found = found || r.Header.Get(name) != ""
				values = append(values, r.Header.Get(name))
			}
			if !found {
				return nil
			}
			return values
		}
	}
}

// inTwo is inBubble with an upstream that sends one event, and another one when the test says so.
func inTwo(t *testing.T, set func(*resume.Options), test func(t *testing.T, l *lab, goOn func())) {
	t.Helper()
	inTwoOf(t, set, events(2), test)
}

// inTwoOf is inTwo with these events.
func inTwoOf(t *testing.T, set func(*resume.Options), pieces []string, test func(t *testing.T, l *lab, goOn func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		each := make(chan struct{}, 1)
		each <- struct{}{}
		test(t, newPipeLab(t, set, streams(pieces, each)), func() { close(each) })
	})
}

// TestKeysOfTheConfiguration has a client send the same again that was cut off: it joins the run.
func TestKeysOfTheConfiguration(t *testing.T) {
	for name, c := range map[string]struct {
		body   bool
		first  []string
		second []string
		other  string // body of the second, if that is another
		joins  bool
		status int
	}{
		"the same":                   {false, []string{chatID, "1"}, []string{chatID, "1"}, "", true, 200},
		"the same with body":         {true, []string{chatID, "1"}, []string{chatID, "1"}, "", true, 200},
		"another chat":               {true, []string{chatID, "1"}, []string{chatID, "2"}, "", false, 200},
		"another body":               {false, []string{chatID, "1"}, []string{chatID, "1"}, `{"stream":true}`, false, 422},
		"another body with body":     {true, []string{chatID, "1"}, []string{chatID, "1"}, `{"stream":true}`, false, 200},
		"two values, moved":          {true, []string{chatID, "a", "X-Task", "b c"}, []string{chatID, "a b", "X-Task", "c"}, "", false, 200},
		"two values, one empty":      {true, []string{chatID, "a"}, []string{"X-Task", "a"}, "", false, 200},
		"its own key wins":           {true, []string{chatID, "1", key, "k"}, []string{chatID, "2", key, "k"}, "", true, 200},
		"its own key is another one": {true, []string{chatID, "1"}, []string{chatID, "1", key, "1"}, "", false, 200},
		"an empty key of its own":    {true, []string{chatID, "1"}, []string{chatID, "1", key, ""}, "", true, 200},
		"other credentials":          {true, []string{chatID, "1"}, []string{chatID, "1", "Authorization", "x"}, "", false, 200},
	} {
		t.Run(name, func(t *testing.T) {
			inTwo(t, byHeader(c.body, chatID, "X-Task"), func(t *testing.T, l *lab, goOn func()) {
				id := l.leaves(post(c.first...)).id()
				goOn()
				q := post(c.second...)
				if c.other != "" {
					q.body = c.other
				}
				r := l.send(q)
				if c.status != http.StatusOK {
					if p := problemOf(t, r, c.status); !strings.Contains(p["detail"].(string), "operator") {
						t.Errorf("problem %v", p)
					}
					return
				}
				r.want(http.StatusOK).wantRest(numbered(r.id(), 1, events(2)...))
				if joins := r.id() == id; joins != c.joins || joins != (r.Header.Get(resume.ReplayedHeader) == "true") {
					t.Errorf("joins: %v, want %v", joins, c.joins)
				}
			})
		})
	}
}

// TestKeyOfTheConfigurationIsFree after a client has been sent all, so that a user who has the answer
// made again gets another one. Before, it is not: a client that was cut off gets the one that
// there is.
func TestKeyOfTheConfigurationIsFree(t *testing.T) {
	pieces := []string{event(1), "data: " + strings.Repeat("2", 1<<20) + "\n\n"} // more than is under way
	inTwoOf(t, byHeader(true, chatID), pieces, func(t *testing.T, l *lab, goOn func()) {
		id := l.leaves(post(chatID, "1")).id()
		goOn()
		synctest.Wait()
		l.wantOpen(0)
		for n := range 2 { // it has ended without a client, and is read by one that leaves again
			r := l.send(post(chatID, "1")).want(http.StatusOK)
			if r.id() != id {
				t.Fatalf("repeat %d is another run", n)
			}
			if n == 0 {
				r.next()
				r.leave()
				synctest.Wait()
			} else if r.rest() != numbered(id, 1, pieces...) {
				t.Error("the repeat gets something else")
			}
			l.wantAsked(1)
		}
		l.wantEmpty()
		problemOf(t, l.send(request{http.MethodGet, otherPath + "/" + id, "", nil}), http.StatusNotFound)
		// The first client, that is there to the end, frees it as well.
		for n := range 2 {
			if r := l.send(post(chatID, "1")).want(http.StatusOK); r.id() == id || r.rest() == "" {
				t.Error("the answer that it had comes again")
			}
			l.wantAsked(int64(n + 2))
			l.wantEmpty()
		}
		// A client's own key stays as it is.
		own := l.send(post(chatID, "1", key, "k")).want(http.StatusOK)
		own.rest()
		if again := l.send(post(chatID, "1", key, "k")).want(http.StatusOK); again.id() != own.id() {
			t.Error("the client's own key is free")
		}
	})
}

// TestOthersReadOnWhenAKeyIsFree lets a client that has joined read all that there is, although the
// first one has been sent all before.
func TestOthersReadOnWhenAKeyIsFree(t *testing.T) {
	inTwo(t, byHeader(true, chatID), func(t *testing.T, l *lab, goOn func()) {
		first := l.send(post(chatID, "1")).want(http.StatusOK)
		first.next()
		second := l.send(post(chatID, "1")).want(http.StatusOK)
		goOn()
		first.rest()
		synctest.Wait()
		second.wantRest(numbered(first.id(), 1, events(2)...))
		l.wantAsked(1)
	})
}

// TestKeyOfARunThatFailedIsFree: nobody wants the beginning of an answer again that ended because all
// clients had left, or that broke off.
func TestKeyOfARunThatFailedIsFree(t *testing.T) {
	t.Run("stopped", func(t *testing.T) {
		set := func(o *resume.Options) {
			byHeader(true, chatID)(o)
			o.AlwaysFor = map[resume.API]time.Duration{resume.APIChat: 20 * time.Second}
		}
		inBubble(t, set, silent, func(t *testing.T, l *lab) {
			l.leaves(chat(chatID, "1"))
			l.wantDetached(1)
			time.Sleep(20*time.Second - 1)
			l.wantOpen(1)
			time.Sleep(1)
			l.wantOpen(0)
			l.wantEmpty()
			l.send(chat(chatID, "1")).want(http.StatusOK).next()
			l.wantAsked(2)
		})
	})
	t.Run("broken", func(t *testing.T) {
		inBubble(t, byHeader(true, chatID), func(w http.ResponseWriter, r *http.Request) error {
			if err := streams(events(1), always())(w, r); err != nil {
				return err
			}
			panic(http.ErrAbortHandler)
		}, func(t *testing.T, l *lab) {
			for n := range 2 {
				l.send(post(chatID, "1")).want(http.StatusOK).broken()
				synctest.Wait()
				l.wantAsked(int64(n + 1))
				l.wantEmpty()
			}
		})
	})
}

// TestKeyOfALostAnswerIsNotFree: what is written to a client that is known to have left is not sent.
func TestKeyOfALostAnswerIsNotFree(t *testing.T) {
	for name, first := range map[string]bool{"the first client": true, "one that has joined": false} {
		t.Run(name, func(t *testing.T) {
			o := resume.DefaultOptions()
			byHeader(true, chatID)(&o)
			store := log.NewMemory()
			o.Store = store
			p := resume.New(o)
			asked := 0
			serve := func(leaves bool) {
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				r := httptest.NewRequest(http.MethodPost, otherPath, strings.NewReader(asking)).WithContext(ctx)
				setFields(r, post(chatID, "1").header)
				w := &leaver{ResponseRecorder: httptest.NewRecorder(), leave: func() {}}
				if leaves {
					w.leave = leave
				}
				_ = p.Serve(w, r, func(w http.ResponseWriter, _ *http.Request) error {
					asked++
					w.Header().Set("Content-Type", "text/event-stream")
					_, err := io.WriteString(w, event(1))
					return err
				})
			}
			serve(true)
			if !first {
				serve(true)
			}
			if _, logs := store.Used(); logs != 1 {
				t.Fatalf("%d logs", logs)
			}
			serve(false)
			if _, logs := store.Used(); logs != 0 || asked != 1 {
				t.Errorf("%d logs, asked %d times", logs, asked)
			}
		})
	}
}

// leaver is a client that leaves when it is sent something, which no write tells.
type leaver struct {
	*httptest.ResponseRecorder
	leave func()
}

func (l *leaver) Write(p []byte) (int, error) {
	l.leave()
	return len(p), nil
}

// TestKeyOfTheConfigurationOfAnSDK wins over what an SDK's own count says, for the whole of detach:
// a repeat joins although it is not marked, also for an answer that is not streamed.
func TestKeyOfTheConfigurationOfAnSDK(t *testing.T) {
	const sdk = retryHeader
	inTwo(t, byHeader(true, chatID), func(t *testing.T, l *lab, goOn func()) {
		id := l.leaves(post(chatID, "1", sdk, "0")).id()
		time.Sleep(10*time.Minute - 1)
		l.wantOpen(1)
		goOn()
		if r := l.send(post(chatID, "1", sdk, "0")).want(http.StatusOK); r.id() != id || r.rest() == "" {
			t.Error("it does not join")
		}
		l.wantAsked(1)
		if r := l.send(post(chatID, "1", sdk, "1")).want(http.StatusOK); r.id() == id {
			t.Error("the key is not free")
		}
		l.wantAsked(2)
	})
	t.Run("not streamed", func(t *testing.T) {
		inBubble(t, byHeader(true, chatID), func(w http.ResponseWriter, _ *http.Request) error {
			time.Sleep(time.Minute)
			w.Header().Set("Content-Type", "application/json")
			_, err := io.WriteString(w, "{}")
			return err
		}, func(t *testing.T, l *lab) {
			first, second := l.sending(chat(chatID, "1", sdk, "0")), l.sending(chat(chatID, "1", sdk, "0"))
			for _, r := range []*reply{<-first, <-second} {
				r.want(http.StatusOK).wantRest("{}")
			}
			l.wantAsked(1)
			synctest.Wait()
			l.wantEmpty()
		})
	})
}

// paths are those of the APIs.
var paths = map[resume.API]string{
	resume.APIChat: "/agent/v1/chat/completions", resume.APIResponses: "/v1/responses",
	resume.APISessions: "/api/sessions/s1/chat/stream", resume.APIRuns: "/v1/runs", "": "/events",
}

// TestAlwaysForAnAPI lets the runs of some APIs go on without a client, each for its time. That is the time
// of a key of the configuration as well, so that leaving soon stops. A client's own key has that of detach.
func TestAlwaysForAnAPI(t *testing.T) {
	const minute, hour = time.Minute, time.Hour
	for name, c := range map[string]struct {
		always bool
		of     map[resume.API]time.Duration
		header []string
		want   map[resume.API]time.Duration // 0: it ends with its client
	}{
		"two": {false, map[resume.API]time.Duration{"sessions": 2 * minute, "chat": minute}, nil,
			map[resume.API]time.Duration{"sessions": 2 * minute, "chat": minute}},
		"all four": {false, map[resume.API]time.Duration{"sessions": 1, "chat": 2, "runs": 3, "responses": 4}, nil,
			map[resume.API]time.Duration{"sessions": 1, "chat": 2, "runs": 3, "responses": 4}},
		"all and some": {true, map[resume.API]time.Duration{"chat": minute, "responses": 0}, nil,
			map[resume.API]time.Duration{"chat": minute, "sessions": 10 * minute, "runs": 10 * minute, "": 10 * minute}},
		"all": {true, nil, nil,
			map[resume.API]time.Duration{"chat": 10 * minute, "sessions": 10 * minute, "runs": 10 * minute, "responses": 10 * minute, "": 10 * minute}},
		"more than detach": {false, map[resume.API]time.Duration{"chat": hour}, nil,
			map[resume.API]time.Duration{"chat": 10 * minute}},
		"the client says less": {false, map[resume.API]time.Duration{"chat": minute}, []string{resume.DetachHeader, "1s"},
			map[resume.API]time.Duration{"chat": time.Second, "sessions": time.Second, "runs": time.Second, "responses": time.Second, "": time.Second}},
		"a key of the configuration": {false, map[resume.API]time.Duration{"chat": 20 * time.Second}, []string{chatID, "1"},
			map[resume.API]time.Duration{"chat": 20 * time.Second, "sessions": 10 * minute, "runs": 10 * minute, "responses": 10 * minute, "": 10 * minute}},
		"the client's own key": {false, map[resume.API]time.Duration{"chat": 20 * time.Second}, []string{key, "k"},
			map[resume.API]time.Duration{"chat": 10 * minute, "sessions": 10 * minute, "runs": 10 * minute, "responses": 10 * minute, "": 10 * minute}},
		"a key without a value": {false, nil, []string{chatID, ""}, nil},
		"the client says no":    {true, map[resume.API]time.Duration{"chat": minute}, []string{resume.DetachHeader, "0s"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			for api, path := range paths {
				set := func(o *resume.Options) {
					if slices.Contains(c.header, chatID) {
						byHeader(true, chatID)(o)
					}
					o.Always, o.AlwaysFor = c.always, c.of
				}
				inBubble(t, set, silent, func(t *testing.T, l *lab) {
					q := post(c.header...)
					q.path = path
					r := l.leaves(q)
					d := c.want[api]
					if (r.id() != "") != (d > 0) {
						t.Fatalf("%s: the id is %q", path, r.id())
					}
					if d == 0 {
						return
					}
					l.wantExpires(d)
				})
			}
		})
	}
}

// TestContentLocation is where the client finds the stream again, by GET, HEAD and DELETE: below the
// path that it has asked for.
func TestContentLocation(t *testing.T) {
	for asked, want := range map[string]string{
		otherPath: otherPath, "/my agent/v1/é": "/my%20agent/v1/%C3%A9", "//twice/v1": "/.//twice/v1", "/a?b": "/a%3Fb",
	} {
		l := newLab(t, func(o *resume.Options) {
			o.Target = func(r *http.Request) (server, path string) {
				if r.Method == http.MethodPost {
					return "", asked
				}
				return "", strings.TrimPrefix(r.URL.Path, "/rewritten")
			}
		}, streams(events(1), always()))
		first := l.send(post(key, "k")).want(http.StatusOK)
		first.rest()
		at := first.Header.Get("Content-Location")
		if at != want+"/"+first.id() {
			t.Errorf("%s: Content-Location %q", asked, at)
		}
		if again := l.send(post(key, "k")); again.Header.Get("Content-Location") != at {
			t.Errorf("%s: a repeat has Content-Location %q", asked, again.Header.Get("Content-Location"))
		}
		if asked != otherPath {
			continue
		}
		if got := l.send(request{http.MethodHead, at, "", nil}).want(http.StatusOK).Header.Get("Content-Location"); got != at {
			t.Errorf("HEAD: Content-Location %q", got)
		}
		l.send(request{http.MethodGet, at, "", nil}).want(http.StatusOK).wantRest(numbered(first.id(), 1, event(1)))
		l.send(request{http.MethodDelete, at, "", nil}).want(http.StatusNoContent)
		if r := l.send(request{http.MethodPost, otherPath, "x", nil}); r.Header.Get("Content-Location") != "" {
			t.Error("an answer that is not kept has an address")
		}
	}
}

// TestLongPathIsNotKept: the address of a stream is in its header, whose size is bounded.
func TestLongPathIsNotKept(t *testing.T) {
	for n, kept := range map[int]bool{15 << 10: true, 16 << 10: false} {
		o := resume.DefaultOptions()
		o.Always = true
		store := log.NewMemory()
		o.Store = store
		r := httptest.NewRequest(http.MethodPost, "/"+strings.Repeat("a", n), strings.NewReader(asking))
		r.Header.Set("Content-Type", "application/json")
		rec := httptest.NewRecorder()
		err := resume.New(o).Serve(rec, r, func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Type", "text/event-stream")
			_, err := io.WriteString(w, event(1))
			return err
		})
		if _, logs := store.Used(); err != nil || (logs == 1) != kept || (rec.Header().Get(resume.StreamHeader) != "") != kept {
			t.Errorf("a path of %d bytes: %v, %d logs", n, err, logs)
		}
	}
}

// TestKeyOfTheConfigurationIsFreeAfterTheRest: a client that was cut off and has come back by an id, of the stream
// or of its response, has also been sent all.
func TestKeyOfTheConfigurationIsFreeAfterTheRest(t *testing.T) {
	frames := responseFrames()
	large := []string{event(1), "data: " + strings.Repeat("2", 1<<20) + "\n\n"} // more than is under way
	two := []string{frames[0], strings.Join(frames[1:], "")}
	for name, c := range map[string]struct {
		first     request
		pieces    []string
		continues func(id string) request
	}{
		"POST, whatever it says": {post(chatID, "1"), large, func(id string) request {
			q := post(chatID, "2", "Last-Event-ID", id+"/1")
			q.body = "{}"
			return q
		}},
		"GET": {post(chatID, "1"), large, func(id string) request {
			return request{http.MethodGet, otherPath + "/" + id, "", []string{"Last-Event-ID", id + "/1"}}
		}},
		"a response, by a number": {response(asking, chatID, "1"), two, func(string) request { return retrieve("0") }},
		"a response, whole":       {response(asking, chatID, "1"), two, func(string) request { return retrieve("") }},
		"a response, by an event": {response(asking, chatID, "1"), two, func(id string) request { return retrieve("", "Last-Event-ID", id+"/1") }},
	} {
		t.Run(name, func(t *testing.T) {
			inTwoOf(t, byHeader(true, chatID), c.pieces, func(t *testing.T, l *lab, goOn func()) {
				id := l.leaves(c.first).id()
				goOn()
				synctest.Wait()
				l.send(request{http.MethodHead, c.first.path + "/" + id, "", nil}).want(http.StatusOK)
				if len(c.pieces[1]) > 1<<20 { // one that leaves again has not been sent all
					l.send(c.continues(id)).want(http.StatusOK).leave()
					synctest.Wait()
				}
				if got := l.send(c.continues(id)).want(http.StatusOK).rest(); !strings.HasSuffix(got, numbered(id, len(frames), frames[len(frames)-1])) && got != numbered(id, 2, c.pieces[1]) {
					t.Errorf("it gets %.200q", got)
				}
				if len(c.pieces[1]) > 1<<20 { // of a response, the name is kept
					l.wantEmpty()
				}
				if r := l.send(c.first).want(http.StatusOK); r.id() == id {
					t.Error("the answer that it had comes again")
				}
				l.wantAsked(2)
			})
		})
	}
}
