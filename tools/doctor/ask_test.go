package doctor

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite"
)

// A clock stands still until it is moved.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// answered examines a Hermes whose chat requests are answered by a handler.
func answered(t testing.TB, o Options, chat http.HandlerFunc) Agent {
	t.Helper()
	f := &fake{dir: "g3-v0.20.3", key: key, serve: map[string]http.HandlerFunc{chatPath: chat}}
	o.Ask, o.Key = true, key
	return examine(t, f.start(t), o)
}

// events begins an event stream.
func events(w http.ResponseWriter) { w.Header().Set("Content-Type", "text/event-stream") }

// TestChatRequest is one short question, as the help says.
func TestChatRequest(t *testing.T) {
	asked := 0
	answered(t, testOptions(), func(w http.ResponseWriter, r *http.Request) {
		asked++
		var body map[string]any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body["stream"] != true || len(body) != 3 {
			t.Errorf("%v: %v", err, body)
		}
		if says := fmt.Sprint(body["messages"]); says != "[map[content:Reply with the single word: pong role:user]]" {
			t.Error(says)
		}
		if r.Header.Get("Authorization") != "Bearer "+key || r.Header.Get("Accept-Encoding") != "identity" {
			t.Errorf("%v", r.Header)
		}
		panic(http.ErrAbortHandler) // and it is not sent again
	})
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}

// TestAnswersThatAreNoGoodStream are told, each with its cause.
func TestAnswersThatAreNoGoodStream(t *testing.T) {
	good := string(recorded(t, "agent-loop/g3-v0.20.3/plain"))
	for name, c := range map[string]struct {
		chat  http.HandlerFunc
		level Level
		says  string
	}{
		"an error": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(500)
			fmt.Fprint(w, `{"error": {"message": "boom with sk-0123456789abcdef0123"}}`)
		}, Fail, "the chat request is answered with status 500: “boom with [redacted]”"},
		"no stream": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, "{}")
		}, Fail, "the answer is no event stream: “application/json”"},
		"compressed": {func(w http.ResponseWriter, r *http.Request) {
			events(w)
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			io.WriteString(z, good)
			z.Close()
		}, Fail, "the answer is compressed: “gzip”, although the request forbids it"},
		"nothing": {func(w http.ResponseWriter, r *http.Request) {
			events(w)
			w.(http.Flusher).Flush()
		}, Fail, "the answer ended in an error, upstream_incomplete"},
		"no chunk": {func(w http.ResponseWriter, r *http.Request) {
			events(w)
			w.(http.Flusher).Flush()
			fmt.Fprint(w, "data: [DONE]\n\n")
		}, Fail, "the answer ended in an error, upstream_incomplete"},
		"cut": {func(w http.ResponseWriter, r *http.Request) {
			events(w)
			fmt.Fprint(w, good[:len(good)/2])
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, Fail, "the answer ended in an error, upstream_aborted"},
		"a failed run": {func(w http.ResponseWriter, r *http.Request) {
			(&fake{dir: "g3-v0.20.3"}).replay(w, "crash_after_text.sse")
		}, Fail, "the answer ended in an error, agent_error"},
		"no end": {func(w http.ResponseWriter, r *http.Request) {
			events(w)
			frame := strings.Split(good, "\n\n")[1] + "\n\n"
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, frame); err != nil {
					return
				}
			}
		}, Warn, "the answer is longer than 1024 KiB, and was left"},
		"the header, and silence": {func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body) // so that it sees the client leave
			events(w)
			fmt.Fprint(w, strings.Split(good, "\n\n")[0]+"\n\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, Fail, "the answer has not ended within 100ms"},
		"silence": {func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body) // so that it sees the client leave
			<-r.Context().Done()
		}, Fail, "no answer within 100ms"},
	} {
		o := testOptions()
		if strings.HasSuffix(name, "silence") {
			o.AskTimeout = 100 * time.Millisecond
		}
		a := answered(t, o, c.chat)
		got := a.finding(t, "answer")
		// A busy machine may not have got the first frame in time.
		if name == "the header, and silence" && strings.HasPrefix(got.Says, "no answer within") {
			continue
		}
		if got.Level != c.level || !strings.HasPrefix(got.Says, c.says) {
			t.Errorf("%s: %+v", name, got)
		}
		if a.Version != "0.20.3" || len(a.Repairs) == 0 {
			t.Errorf("%s: what was known is lost: %+v", name, a)
		}
	}
}

// TestAnswersAreReadUpToABound, however they come.
func TestAnswersAreReadUpToABound(t *testing.T) {
	talk := new(talk)
	for range maxAnswer {
		talk.add([]byte("abc"), time.Second)
	}
	if len(talk.body) != maxAnswer || cap(talk.body) > 2*maxAnswer {
		t.Errorf("%d bytes, room for %d", len(talk.body), cap(talk.body))
	}
}

// TestStreamsThatAreCollected on their way: a first frame that is late, with all others.
func TestStreamsThatAreCollected(t *testing.T) {
	frames := bytes.SplitAfter(recorded(t, "agent-loop/g3-v0.20.3/plain"), []byte("\n\n"))
	collected := func(c *clock, length bool) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			events(w)
			all := bytes.Join(frames, nil)
			if length {
				w.Header().Set("Content-Length", fmt.Sprint(len(all)))
			} else {
				w.(http.Flusher).Flush() // the header comes at once
			}
			c.move(30 * time.Second)
			w.Write(all)
		}
	}
	for name, c := range map[string]struct {
		length bool
		says   string
	}{
		"a late first frame": {false, "the first frame came after 30s, and all others within 0s: something between collects the stream"},
		"a Content-Length":   {true, "the answer has a Content-Length, which a stream does not have: something between collects the stream"},
	} {
		watch := new(clock)
		o := testOptions()
		o.Now = watch.Now
		if got := answered(t, o, collected(watch, c.length)).finding(t, "pace"); got.Level != Fail || got.Says != c.says {
			t.Errorf("%s: %+v", name, got)
		}
	}

	for _, c := range []struct {
		first, last time.Duration
		is          bool
	}{
		{2 * time.Millisecond, 13 * time.Second, false}, // a model that thinks, or that does not stream
		{2 * time.Millisecond, 3 * time.Millisecond, false},
		{heldUp, heldUp, true},
		{heldUp - 1, heldUp - 1, false},
		{9 * time.Second, 10 * time.Second, true},
		{9*time.Second - 1, 10 * time.Second, false}, // late, but they come one by one
	} {
		talk := &talk{length: -1, first: c.first, last: c.last}
		if _, is := talk.collected(); is != c.is {
			t.Errorf("%v: %v", c, is)
		}
	}
}

// TestFirstFrameIsSeen however its bytes are cut, and comments are none.
func TestFirstFrameIsSeen(t *testing.T) {
	for _, cut := range []int{1, 2, 3, 5, 100} {
		talk, at := new(talk), time.Duration(0)
		in := ": keepalive\n\n" + "data: {}\n\n"
		for len(in) > 0 {
			at++
			n := min(cut, len(in))
			talk.add([]byte(in[:n]), at)
			in = in[n:]
		}
		if want := time.Duration((len(": keepalive\n\ndata:") + cut - 1) / cut); talk.first != want || talk.last != at {
			t.Errorf("cut %d: first %d, want %d; last %d, want %d", cut, talk.first, want, talk.last, at)
		}
	}
}

// through examines a Hermes that answers with a scenario, and a proxy in front of it whose
// answers are changed.
func through(t testing.TB, dir, scenario, needed string, change func(*http.Response) error) (a Agent, sidecar string) {
	t.Helper()
	agent := (&fake{dir: dir, scenario: scenario, key: needed}).start(t)
	u, err := url.Parse(agent)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(u) },
		ModifyResponse: change, FlushInterval: -1,
	})
	t.Cleanup(s.Close)
	o := testOptions()
	o.Ask, o.Key = true, needed
	o.Through = &Through{Target: target(t, s.URL)}
	return examine(t, agent, o), s.URL
}

// repaired repairs a stream as the sidecar does.
func repaired(res *http.Response) error {
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		return nil
	}
	b, err := io.ReadAll(res.Body)
	s := rewrite.New(new(rewrite.Options), rewrite.Params{Active: true})
	out := s.Finish(s.Feed(nil, b, time.Time{}), rewrite.CauseEOF)
	res.Body = io.NopCloser(bytes.NewReader(out))
	return err
}

// TestThroughTheSidecar it is seen what is repaired.
func TestThroughTheSidecar(t *testing.T) {
	unchanged := func(*http.Response) error { return nil }
	for name, c := range map[string]struct {
		dir, scenario string
		change        func(*http.Response) error
		level         Level
		says          string
	}{
		"repaired":      {"g0-v0.8.0", "one_tool", repaired, OK, "what was to be repaired is repaired"},
		"not repaired":  {"g0-v0.8.0", "one_tool", unchanged, Warn, "this answer still needs a repair: §1 a tool marker"},
		"nothing to do": {"g3-v0.20.3", "plain", unchanged, Info, "the answer needs no repair, with the sidecar or without"},
	} {
		a, sidecar := through(t, c.dir, c.scenario, key, c.change)
		if got := a.finding(t, "through.repaired"); got.Level != c.level || !strings.HasPrefix(got.Says, c.says) {
			t.Errorf("%s: %+v", name, got)
		}
		if a.Through != sidecar || a.finding(t, "through.reachable").Level != OK {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

// TestSidecarsThatDoNotWork are told apart.
func TestSidecarsThatDoNotWork(t *testing.T) {
	for status, c := range map[int]struct {
		level Level
		says  string
	}{
		401: {Info, "it asks for credentials (status 401)"},
		404: {Fail, "what answers there does not pass /health on to Hermes (status 404)"},
		502: {Fail, "it answers with status 502: “boom”"},
	} {
		a, _ := through(t, "g3-v0.20.3", "plain", "", func(res *http.Response) error {
			res.StatusCode, res.Header = status, http.Header{}
			res.Body = io.NopCloser(strings.NewReader(`{"error": {"message": "boom"}}`))
			return nil
		})
		if got := a.finding(t, "through.reachable"); got.Level != c.level || !strings.HasPrefix(got.Says, c.says) {
			t.Errorf("%d: %+v", status, got)
		}
	}
	for configured, level := range map[bool]Level{true: Warn, false: Fail} {
		o := testOptions()
		o.Through = &Through{target(t, "127.0.0.1:1"), configured}
		agent := (&fake{dir: "g3-v0.20.3"}).start(t)
		if got := examine(t, agent, o).finding(t, "through.reachable"); got.Level != level {
			t.Errorf("configured %v: %+v", configured, got)
		}
	}
}

// TestExaminationThatIsCancelled ends.
func TestExaminationThatIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	a := Examine(ctx, target(t, (&fake{dir: "g3-v0.20.3"}).start(t)), "--to", testOptions())
	if !a.failed() {
		t.Errorf("%+v", a)
	}
}

// TestStreamThatComesAsItIsMade is told from one that is too quick to tell.
func TestStreamThatComesAsItIsMade(t *testing.T) {
	for last, level := range map[time.Duration]Level{heldUp - 1: Info, heldUp: OK} {
		e := &examination{}
		e.pace(&talk{length: -1, first: time.Millisecond, last: last})
		if got := e.finding(t, "pace"); got.Level != level {
			t.Errorf("%v: %+v", last, got)
		}
	}
}

// TestAnswersThatAreLeft when the doctor's time is over are not repaired by that: the
// sidecar waits longer.
func TestAnswersThatAreLeft(t *testing.T) {
	role := chunkWith(`"delta": {"role": "assistant"}, "finish_reason": null`)
	waiting := "event: hermes.status\ndata: {\"kind\": \"lifecycle\", \"text\": \"Provider temporarily unavailable\"}\n\n"
	for stream, says := range map[string]string{
		role:                "the answer has not ended within 1s",
		role + waiting:      "the answer has not ended within 1s; its last hermes.status: “Provider temporarily unavailable”",
		": keepalive\n\n":   "the answer has not ended within 1s",
		role + ": keepal":   "the answer has not ended within 1s",
		role + "data: {\"a": "the answer has not ended within 1s",
	} {
		for { // a busy machine may not have got the header in time
			o := testOptions()
			o.AskTimeout = time.Second
			a := answered(t, o, func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body) // so that it sees the client leave
				events(w)
				io.WriteString(w, stream)
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			})
			if strings.HasPrefix(a.finding(t, "answer").Says, "no answer within") || strings.Contains(says, "status") && !strings.Contains(a.finding(t, "answer").Says, "status") {
				continue
			}
			if got := a.finding(t, "answer"); got.Level != Fail || got.Says != says || !strings.Contains(got.Why, "--ask-timeout") {
				t.Errorf("%q: %+v", stream, got)
			}
			for _, f := range a.Findings {
				if f.Check == "repaired" || f.Check == "usage" {
					t.Errorf("%q: %+v", stream, f)
				}
			}
			break
		}
	}
}

// TestFirstFrameThatNeverCame has not come after 0s.
func TestFirstFrameThatNeverCame(t *testing.T) {
	for _, stream := range []string{"", ": keepalive\n\n", "\n\n\n"} {
		a := answered(t, testOptions(), func(w http.ResponseWriter, r *http.Request) {
			events(w)
			w.(http.Flusher).Flush()
			io.WriteString(w, stream)
		})
		for _, f := range a.Findings {
			if f.Check == "pace" {
				t.Errorf("%q: %+v", stream, f)
			}
		}
	}
}
