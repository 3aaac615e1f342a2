package splice_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/alone"
	"github.com/hermes-sidecar/hermes-sidecar/internal/proxytest"
	"github.com/hermes-sidecar/hermes-sidecar/resume"
	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
	"github.com/hermes-sidecar/hermes-sidecar/resume/splice"
)

// events returns the events of a stream, as the standard has them read.
func events(stream string) (all []string) {
	stream = strings.ReplaceAll(strings.ReplaceAll(stream, "\r\n", "\n"), "\r", "\n")
	e := ""
	for line := range strings.SplitSeq(stream, "\n") {
		switch {
		case line == "" && e != "":
			all, e = append(all, e), ""
		case line != "" && line[0] != ':':
			e += line + "\n"
		}
	}
	return append(all, e)
}

// TestKeepalivesAreNoPartOfAnEvent has the site away for so long that comments come, from each byte on.
func TestKeepalivesAreNoPartOfAnEvent(t *testing.T) {
	for name, pieces := range endings {
		t.Run(name, func(t *testing.T) {
			cut := func(at int) string {
				return over(t, pieces, func(n int) damage {
					if n == 1 {
						return damage{after: at}
					}
					return damage{refused: n < 10}
				})
			}
			whole, seen := cut(0), false
			step := 4
			if strings.Contains(whole, "\r") { // a comment must not come between CR and LF
				step = 1
			}
			for at := 250; at < len(whole)+600; at += step { // the header takes no less
				got := cut(at)
				if !slices.Equal(events(got), events(whole)) {
					t.Fatalf("broken after %d bytes:\n got %q\nwant %q", at, got, whole)
				}
				seen = seen || strings.Contains(got, ": keepalive\n")
			}
			if !seen && name != "CR" {
				t.Error("no comment has come")
			}
		})
	}
}

// TestSilence that is longer than the time to come back breaks nothing: the site is there.
func TestSilence(t *testing.T) {
	for name, d := range map[string]damage{"a site that is silent": {}, "connections that are cut when idle": {idle: time.Second}} {
		proxytest.Bubble(t, name, func(t *testing.T) {
			r := newRoad(t, &splice.Transport{ResumeFor: 10 * time.Second}, func(w http.ResponseWriter, q *http.Request) {
				answers("data: 1\n\n")(w, q)
				time.Sleep(5 * time.Minute)
				answers("data: 2\n\n", "data: [DONE]\n\n")(w, q)
			})
			r.damage = func(int) damage { return d }
			if got := theirs(r.all()); !strings.HasSuffix(got, "data: 2\nid: ID/2\n\ndata: [DONE]\nid: ID/3\n\n") || r.asked.Load() != 1 {
				t.Errorf("got %q", got)
			}
		})
	}
}

// TestGoodEndsThatBringNothing have the site asked for a while, although each looks like one of a
// whole stream: the site would say so in another way. Then the stream breaks off.
func TestGoodEndsThatBringNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := continued(numbered(1, "one"), nil, func(int) *http.Response { return stream("", nil) })
		begun := time.Now()
		got, err := x.read(t)
		took := time.Since(begun)
		synctest.Wait() // for the DELETE
		if err == nil || x.n[http.MethodGet] > 40 || took < 45*time.Second {
			t.Errorf("%v after %q and %v in %v", err, got, x.n, took)
		}
	})
}

// TestConnectionsThatBringSomething are no reason to wait, or to give up, however many break.
func TestConnectionsThatBringSomething(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 1000
		x := continued(numbered(1, 1), errCutOff, func(n int) *http.Response { return stream(numbered(n+1, n+1), errCutOff) })
		begun := time.Now()
		res := mustAsk(t, &splice.Transport{Next: x}, chats)
		in := bufio.NewReader(res.Body)
		for i := range n {
			if line, err := in.ReadString('\n'); line != fmt.Sprintf("data: %d\n", i+1) {
				t.Fatalf("%q, %v", line, err)
			}
			_, _ = in.ReadString('\n')
			_, _ = in.ReadString('\n')
		}
		_ = res.Body.Close()
		if took := time.Since(begun); took > 0 {
			t.Errorf("took %v", took)
		}
		synctest.Wait()
	})
}

// TestTrimmedStream is not whole, although it has ended well.
func TestTrimmedStream(t *testing.T) {
	x := continued(numbered(1, "one"), nil, func(int) *http.Response { return problem(410) })
	if got, err := x.read(t); err == nil {
		t.Errorf("a good end after %q", got)
	}
}

// TestFailedInTheEnd is a request that was sent again and again: it is not for another site.
func TestFailedInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &next{answer: func(r *http.Request, n int) (*http.Response, error) {
			if r.Method == http.MethodGet {
				return problem(404), nil
			}
			return nil, fmt.Errorf("dial: %w", errCutOff)
		}}
		if _, err := ask(&splice.Transport{Next: x}, chats); err == nil || errors.Is(err, errCutOff) || x.n[http.MethodPost] < 5 {
			t.Errorf("%v after %v", err, x.n)
		}
	})
}

// next is an http.RoundTripper. It counts the requests for each method, from 1.
type next struct {
	mu     sync.Mutex
	n      map[string]int
	answer func(r *http.Request, n int) (*http.Response, error)
}

func (x *next) RoundTrip(r *http.Request) (*http.Response, error) {
	x.mu.Lock()
	if x.n == nil {
		x.n = make(map[string]int)
	}
	x.n[r.Method]++
	n := x.n[r.Method]
	x.mu.Unlock()
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
	}
	if t := httptrace.ContextClientTrace(r.Context()); t != nil && t.WroteHeaders != nil {
		t.WroteHeaders()
	}
	res, err := x.answer(r, n)
	if res != nil {
		res.Request = r
	}
	return res, err
}

// cutOff is what a body fails with.
var errCutOff = errors.New("cut off")

// reply returns an answer with the body, and the error after it if that is not nil.
func reply(status int, media, body string, err error) *http.Response {
	res := &http.Response{StatusCode: status, Status: fmt.Sprint(status), Header: http.Header{"Content-Type": {media}}, ContentLength: int64(len(body))}
	in := io.Reader(strings.NewReader(body))
	if err != nil {
		in = io.MultiReader(in, readerFunc(func([]byte) (int, error) { return 0, err }))
	}
	res.Body = io.NopCloser(in)
	return res
}

// streamID is the id of all streams that tests make up.
const streamID = "stream_1111111111111111111111"

// stream is reply for a stream.
func stream(body string, err error) *http.Response {
	res := reply(200, "text/event-stream", body, err)
	res.Header.Set(resume.StreamHeader, streamID)
	return res
}

// numbered returns an event of the stream.
func numbered(n, data any) string {
	return fmt.Sprintf("data: %v\nid: %s/%v\n\n", data, streamID, n)
}

// done is a stream with the last event alone.
func done() *http.Response { return stream(numbered(1, "[DONE]"), nil) }

// continued is a site whose stream begins with the text and ends with the error, or well. It answers the
// nth request of any other method with rest.
func continued(begin string, end error, rest func(n int) *http.Response) *next {
	return &next{answer: func(r *http.Request, n int) (*http.Response, error) {
		if r.Method == http.MethodPost {
			return stream(begin, end), nil
		}
		return rest(n), nil
	}}
}

// read asks for a stream, and reads all of it.
func (x *next) read(t *testing.T) (string, error) {
	t.Helper()
	b, err := io.ReadAll(mustAsk(t, &splice.Transport{Next: x}, chats).Body)
	return string(b), err
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// problem returns what hermes_resume says instead of a stream.
func problem(status int) *http.Response {
	res := reply(status, "application/problem+json", "{}", nil)
	res.Header.Set("X-Should-Retry", "false")
	return res
}

// ask sends a request for a stream of the path.
func ask(tr http.RoundTripper, path string, fields ...string) (*http.Response, error) {
	q := httptest.NewRequest(http.MethodPost, "http://site"+path, strings.NewReader(`{"stream":true}`))
	for i := 0; i < len(fields); i += 2 {
		q.Header.Set(fields[i], fields[i+1])
	}
	return tr.RoundTrip(q)
}

// mustAsk is ask for what gets an answer.
func mustAsk(t *testing.T, tr http.RoundTripper, path string, fields ...string) *http.Response {
	t.Helper()
	res, err := ask(tr, path, fields...)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

const chats = "/v1/chat/completions"

// TestStreamThatChanges is an error: no byte of an event is taken for one of another. A replica that
// dies may have been the only one that had it. An event of which the client has nothing may change.
func TestStreamThatChanges(t *testing.T) {
	large := strings.Repeat("x", 100<<10)
	same := numbered(2, "two") + numbered(3, "[DONE]")
	other := numbered(9, "error") + numbered(10, "[DONE]")
	for name, test := range map[string]struct {
		part  string // of the second event, that the first connection brings
		end   error
		rest  string
		wants string // after the first event
		fails bool
	}{
		"the same":           {"data: t", errCutOff, same, same, false},
		"another":            {"data: t", errCutOff, other, other, false},
		"the same, ended":    {"data: t", nil, same, same, false},
		"another, ended":     {"data: t", nil, other, "data: t", true},
		"the same, large":    {"data: " + large, errCutOff, numbered(2, large) + numbered(3, "[DONE]"), numbered(2, large) + numbered(3, "[DONE]"), false},
		"another, large":     {"data: " + large, errCutOff, other + large, "data: " + large, true},
		"a large one, stale": {"data: " + large, errCutOff, numbered(1, large), "data: " + large + "\n", true},
	} {
		synctest.Test(t, func(t *testing.T) {
			x := continued(numbered(1, "one")+test.part, test.end, func(int) *http.Response { return stream(test.rest, nil) })
			res := mustAsk(t, &splice.Transport{Next: x}, chats)
			b, err := io.ReadAll(res.Body)
			if want := numbered(1, "one") + test.wants; string(b) != want || (err != nil) != test.fails {
				t.Errorf("%s: %v after %.300q, want %.300q", name, err, b, want)
			}
			if res.ContentLength != -1 {
				t.Error("it has a length, although comments may come")
			}
		})
	}
}

// TestAnswersOnComingBack ends the stream if the site refuses, and waits for it if something else
// answers. The last answer is the rest of the stream.
func TestAnswersOnComingBack(t *testing.T) {
	redirect := reply(302, "text/html", "login", nil)
	another := stream("data: x\n\n", nil)
	another.Header.Set(resume.StreamHeader, "stream_2222222222222222222222")
	zipped := stream("zzz", nil)
	zipped.Header.Set("Content-Encoding", "gzip")
	for name, test := range map[string]struct {
		answer *http.Response
		ends   bool
	}{
		"401":                     {reply(401, "text/plain", "", nil), true},
		"403":                     {reply(403, "text/plain", "", nil), true},
		"unknown":                 {problem(404), true},
		"trimmed":                 {problem(410), true},
		"behind":                  {problem(400), true},
		"storage away":            {problem(503), false},
		"no site yet":             {reply(404, "text/plain", "default backend", nil), false},
		"a page":                  {reply(200, "text/html", "welcome", nil), false},
		"a redirect":              {redirect, false},
		"bad gateway":             {reply(502, "text/html", "", nil), false},
		"another stream":          {another, false},
		"a stream that is gzip'd": {zipped, false},
	} {
		proxytest.Bubble(t, name, func(t *testing.T) {
			x := &next{answer: func(r *http.Request, n int) (*http.Response, error) {
				switch {
				case r.Method == http.MethodPost:
					return stream(numbered(1, "one"), errCutOff), nil
				case r.Header.Get("Last-Event-Id") != streamID+"/1" && r.Method == http.MethodGet:
					t.Errorf("asked for %q", r.Header)
				case n == 1:
					return test.answer, nil
				}
				return stream(numbered(2, "[DONE]"), nil), nil
			}}
			got, err := x.read(t)
			if (err != nil) != test.ends || strings.Contains(got, "[DONE]") == test.ends || strings.Count(got, "data:") > 2 {
				t.Errorf("%v after %q", err, got)
			}
			synctest.Wait()
		})
	}
}

// TestNoCompression: the site is asked for none, and what is compressed all the same passes.
func TestNoCompression(t *testing.T) {
	x := &next{answer: func(r *http.Request, n int) (*http.Response, error) {
		if v := r.Header["Accept-Encoding"]; v != nil {
			t.Errorf("accepts %q", v)
		}
		res := stream("\x1f\x8b", errCutOff)
		res.Header.Set("Content-Encoding", "gzip")
		return res, nil
	}}
	res := mustAsk(t, &splice.Transport{Next: x}, chats, "Accept-Encoding", "gzip")
	if b, err := io.ReadAll(res.Body); string(b) != "\x1f\x8b" || !errors.Is(err, errCutOff) || x.n[http.MethodGet] != 0 {
		t.Errorf("%q, %v, then asked %v", b, err, x.n)
	}
}

// TestSentOnce names what is sent once although its connection breaks before the answer: a request
// that the site would run twice.
func TestSentOnce(t *testing.T) {
	keeps := func() *http.Response { return problem(404) }
	for name, test := range map[string]struct {
		path   string
		probed func() *http.Response // the answer to the question for an unknown stream
		want   int                   // how often the request is sent
	}{
		"a site with hermes_resume":         {chats, keeps, 2},
		"a session":                         {"/api/sessions/s/chat/stream", keeps, 2},
		"a site without it":                 {chats, func() *http.Response { return reply(404, "application/json", "{}", nil) }, 1},
		"a site without it, another status": {chats, func() *http.Response { return reply(405, "application/json", "{}", nil) }, 1},
		"a site that wants a login":         {chats, func() *http.Response { return reply(401, "text/plain", "", nil) }, 1},
		"a storage that is away":            {chats, func() *http.Response { return problem(503) }, 1},
		"a run":                             {"/v1/runs", keeps, 1}, // its answer is no stream, which frees the key
		"a path that nobody knows":          {"/mcp", keeps, 1},
	} {
		proxytest.Bubble(t, name, func(t *testing.T) {
			keys := make(map[string]bool)
			x := &next{answer: func(r *http.Request, n int) (*http.Response, error) {
				if r.Method == http.MethodGet {
					return test.probed(), nil
				}
				if keys[r.Header.Get(resume.KeyHeader)] = true; n == 1 {
					return nil, errCutOff
				}
				return done(), nil
			}}
			res, err := ask(&splice.Transport{Next: x}, test.path)
			if (err == nil) != (test.want == 2) || x.n[http.MethodPost] != test.want || len(keys) != 1 || keys[""] {
				t.Errorf("%v after %v with %v", err, x.n, keys)
			}
			if err == nil {
				_ = res.Body.Close()
			}
			synctest.Wait()
		})
	}
}

// TestAnswersToARequestSentAgain passes what the agent has answered: only what stands in between is
// asked once more.
func TestAnswersToARequestSentAgain(t *testing.T) {
	for status, want := range map[int]int{400: 2, 404: 2, 500: 2, 502: 3, 503: 3, 504: 3, 522: 3, 429: 3} {
		synctest.Test(t, func(t *testing.T) {
			x := &next{answer: func(r *http.Request, n int) (*http.Response, error) {
				switch {
				case r.Method == http.MethodGet:
					return problem(404), nil
				case n == 1:
					return nil, errCutOff
				case n == 2:
					return reply(status, "application/json", "{}", nil), nil
				}
				return done(), nil
			}}
			res, err := ask(&splice.Transport{Next: x}, chats)
			if err != nil || x.n[http.MethodPost] != want {
				t.Errorf("%d: %v after %v", status, err, x.n)
			} else {
				_ = res.Body.Close()
			}
			synctest.Wait()
		})
	}
}

// TestEmptyKey counts as none, so that the request gets one.
func TestEmptyKey(t *testing.T) {
	x := &next{answer: func(r *http.Request, n int) (*http.Response, error) {
		if k := r.Header[resume.KeyHeader]; len(k) != 1 || k[0] == "" || r.Header.Get(resume.DetachHeader) == "" {
			t.Errorf("sent with %q", r.Header)
		}
		return done(), nil
	}}
	res := mustAsk(t, &splice.Transport{Next: x}, chats, resume.KeyHeader, "")
	_, _ = io.ReadAll(res.Body)
}

// TestFailedRequestGoesElsewhere with its body, and with its key if it may have been heard of. Only
// if not does its error say that nothing was sent.
func TestFailedRequestGoesElsewhere(t *testing.T) {
	for name, sent := range map[string]bool{"not heard of": false, "heard of": true} {
		t.Run(name, func(t *testing.T) {
			key := ""
			refuses := &splice.Transport{Next: readsNothing(func(r *http.Request) error {
				key = r.Header.Get(resume.KeyHeader)
				if sent {
					httptrace.ContextClientTrace(r.Context()).WroteHeaders()
				}
				return fmt.Errorf("dial: %w", errCutOff)
			})}
			answers := &splice.Transport{Next: &next{answer: func(r *http.Request, n int) (*http.Response, error) {
				if got := r.Header.Get(resume.KeyHeader); got != key || r.ContentLength != int64(len(`{"stream":true}`)) {
					t.Errorf("key %q of %q, %d bytes", got, key, r.ContentLength)
				}
				return done(), nil
			}}}
			q := httptest.NewRequest(http.MethodPost, "http://site/mcp", strings.NewReader(`{"stream":true}`))
			_, err := refuses.RoundTrip(q)
			failed, ok := errors.AsType[*splice.Failed](err)
			if !ok || errors.Is(err, errCutOff) == sent || !strings.Contains(err.Error(), "dial: cut off") {
				t.Fatalf("%T %v", err, err)
			}
			res, err := answers.RoundTripAgain(q, failed)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.ReadAll(res.Body)
		})
	}
}

// readsNothing is an http.RoundTripper that fails before it reads a body.
type readsNothing func(*http.Request) error

func (f readsNothing) RoundTrip(r *http.Request) (*http.Response, error) { return nil, f(r) }

// TestClientThatLeavesABadRoad ends everything: nothing is sent for it any more, but for one DELETE, and its run
// ends as soon as its time is over.
func TestClientThatLeavesABadRoad(t *testing.T) {
	for name, test := range map[string]struct {
		damage func(n int, at time.Duration) damage
		site   http.HandlerFunc
		leaves time.Duration
		asked  string // what the site is
		ends   string // how runs end
	}{
		"before the request": {func(int, time.Duration) damage { return damage{slow: 5 * time.Second} }, answers(), time.Second, "[]", "[]"},
		"in silence": {
			func(int, time.Duration) damage { return damage{} },
			func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() }, time.Second, "[POST ]", "[expired]",
		},
		"after a break before the header": {func(n int, at time.Duration) damage {
			if n == 1 {
				return damage{after: 1}
			}
			return damage{refused: at < 10*time.Second}
		}, answers("data: 1\n\n"), 10 * time.Second, "[POST ]", "[none]"},
		"while the site is away": {
			func(n int, _ time.Duration) damage { return damage{after: 400, refused: n > 1} },
			func(w http.ResponseWriter, q *http.Request) {
				answers("data: 1\n\n", "data: 2\n\n")(w, q)
				<-q.Context().Done()
			}, 20 * time.Second, "[POST ]", "[expired]",
		},
	} {
		proxytest.Bubble(t, name, func(t *testing.T) {
			r := newRoad(t, new(splice.Transport), test.site)
			begun := time.Now()
			r.damage = func(n int) damage { return test.damage(n, time.Since(begun)) }
			time.AfterFunc(test.leaves, r.leave)
			res, err := r.post()
			if err == nil {
				_, err = io.ReadAll(res.Body)
			}
			if err == nil {
				t.Error("a good end")
			}
			n := r.opened.Load()
			time.Sleep(2 * time.Minute)
			ends := []log.Reason{}
			for len(r.ends) > 0 {
				ends = append(ends, <-r.ends)
			}
			time.Sleep(time.Hour)
			if more := r.opened.Load() - n; fmt.Sprint(r.log) != test.asked || fmt.Sprintf("%v", ends) != test.ends || more > 1 {
				t.Errorf("the site was asked %q, and its runs ended: %v; %d connections more", r.log, ends, more)
			}
		})
	}
}

// TestCloseWhileItReads at each moment, as one goroutine closes what another one reads.
func TestCloseWhileItReads(t *testing.T) {
	for at := range 40 {
		synctest.Test(t, func(t *testing.T) {
			r := newRoad(t, new(splice.Transport), answers(endings["LF"]...))
			r.damage = func(n int) damage { return damage{after: 350, refused: n > 1 && n < 9} }
			res := r.begin()
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = io.ReadAll(res.Body)
			}()
			time.Sleep(time.Duration(at) * 250 * time.Millisecond)
			_ = res.Body.Close()
			<-done
			if _, err := res.Body.Read(make([]byte, 1)); err == nil {
				t.Error("it can be read")
			}
			time.Sleep(2 * time.Minute) // for the run, if the site has not heard of it
		})
	}
}

// TestMemory of streams that are open is small, whatever their requests were.
func TestMemory(t *testing.T) {
	const streams, size = 1000, 256 << 10
	question := append([]byte(`{"stream":true,"messages":"`), bytes.Repeat([]byte("x"), size)...)
	question = append(question, `"}`...)
	open := make([]*http.Response, streams)
	x := &next{answer: func(*http.Request, int) (*http.Response, error) {
		return stream(numbered(1, "one"), nil), nil
	}}
	tr := &splice.Transport{Next: x}
	before := alone.Heap()
	for i := range open {
		q := httptest.NewRequest(http.MethodPost, "http://site"+chats, bytes.NewReader(question))
		res, err := tr.RoundTrip(q)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = res.Body.Read(make([]byte, 10))
		open[i] = res
	}
	if each := (alone.Heap() - before) / streams; each > 32<<10 {
		t.Errorf("an open stream takes %d bytes", each)
	}
	runtime.KeepAlive(open)
}

// endless is a site whose stream is one line, which breaks off after so many bytes. It reads at most a
// piece at a time.
func endless(left *int, piece int) *splice.Transport {
	return &splice.Transport{Next: &next{answer: func(*http.Request, int) (*http.Response, error) {
		res := stream("", nil)
		res.Body = io.NopCloser(readerFunc(func(p []byte) (int, error) {
			if *left == 0 {
				return 0, errCutOff
			}
			n := min(len(p), *left, piece)
			for i := range p[:n] {
				p[i] = 'x'
			}
			*left -= n
			return n, nil
		}))
		return res, nil
	}}, ResumeFor: time.Nanosecond}
}

// TestMemoryOfHeldEvents bounds what is held of an event whose number has not come, however large it is.
func TestMemoryOfHeldEvents(t *testing.T) {
	alone.NotUnderRace(t)
	const streams, maxHeld = 50, 64 << 10
	for size, passed := range map[int]int{maxHeld - 100: 0, 10 * maxHeld: 10 * maxHeld} {
		var open [streams]*http.Response
		before := alone.Heap()
		for i := range open {
			left := size
			res := mustAsk(t, endless(&left, 1000), chats)
			open[i] = res
			for n := 0; n < passed; {
				more, err := res.Body.Read(make([]byte, 4<<10))
				if n += more; err != nil {
					t.Fatal(err)
				}
			}
			if passed == 0 {
				// The first byte comes when nothing more does.
				if n, _ := res.Body.Read(make([]byte, 1)); n != 1 || left > 0 {
					t.Fatalf("%d bytes, %d still to come", n, left)
				}
			}
		}
		if each := (alone.Heap() - before) / streams; each > 2*maxHeld+32<<10 {
			t.Errorf("an event of %d bytes takes %d", size, each)
		}
		runtime.KeepAlive(open)
	}
}

// TestLongStream takes no memory for what it passes on, also if it is a single line.
func TestLongStream(t *testing.T) {
	const size = 100 << 20
	left := size
	before := alone.Heap()
	res := mustAsk(t, endless(&left, size), chats)
	defer res.Body.Close()
	n, _ := io.CopyN(io.Discard, res.Body, size)
	if grown := alone.Heap() - before; n != size || grown > 1<<20 {
		t.Errorf("%d bytes took %d", n, grown)
	}
}
