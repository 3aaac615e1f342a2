package resume_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/proxytest"
	"github.com/hermes-sidecar/hermes-sidecar/resume"
	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// patience is how long a test waits for what must come, on a machine however busy.
const patience = 4 * time.Minute

// retryHeader is how many times an SDK of OpenAI's has sent the same request before.
const retryHeader = "X-Stainless-Retry-Count"

const (
	chatPath  = "/v1/chat/completions"
	otherPath = "/events"
	asking    = `{"stream":true,"messages":[]}`
	key       = "Idempotency-Key"
)

// event returns the nth event of a stream that is not of Hermes'.
func event(n int) string { return "data: " + strconv.Itoa(n) + "\n\n" }

// lab is a handler that lets answers outlive their connections, with a next one that
// does what the test says, in a server.
type lab struct {
	t     *testing.T
	store *log.Memory
	runs  *resume.Runs
	srv   *httptest.Server
	asked atomic.Int64 // how many times next was called
	told  chan resume.Ended
}

// newLab returns a lab with the defaults, which set changes.
func newLab(t *testing.T, set func(*resume.Options), next resume.Next) *lab {
	t.Helper()
	return newLabAt(t, nil, set, next)
}

// newPipeLab is newLab for a bubble: its connections are pipes.
func newPipeLab(t *testing.T, set func(*resume.Options), next resume.Next) *lab {
	t.Helper()
	return newLabAt(t, proxytest.NewPipes(), set, next)
}

// inBubble runs a test with a clock of its own, and a lab whose connections are pipes.
func inBubble(t *testing.T, set func(*resume.Options), next resume.Next, test func(t *testing.T, l *lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newPipeLab(t, set, next)) })
}

// newLabAt is newLab at a listener, nil for one of TCP.
func newLabAt(t *testing.T, at *proxytest.Pipes, set func(*resume.Options), next resume.Next) *lab {
	t.Helper()
	l := &lab{t: t, store: log.NewMemory(), runs: new(resume.Runs), told: make(chan resume.Ended, 10000)}
	o := resume.DefaultOptions()
	o.Store, o.Runs, o.Ended = l.store, l.runs, func(_ *http.Request, e resume.Ended) { l.told <- e }
	if set != nil {
		set(&o)
	}
	p := resume.New(o)
	l.srv = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := p.Serve(w, r, func(w http.ResponseWriter, r *http.Request) error {
			l.asked.Add(1)
			return next(w, r)
		})
		if err != nil {
			w.WriteHeader(http.StatusTeapot)
		}
	}))
	if at != nil {
		l.srv.Listener.Close()
		l.srv.Listener = at
	}
	l.srv.Start()
	if at != nil {
		l.srv.Client().Transport.(*http.Transport).DialContext = at.Dial
	}
	t.Cleanup(func() {
		l.runs.Shutdown(1)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		l.runs.Wait(ctx)
		l.srv.Close()
	})
	return l
}

// streams is a next handler that sends the pieces, each when the channel says so; when it
// is closed, without waiting.
func streams(pieces []string, each <-chan struct{}) resume.Next {
	return func(w http.ResponseWriter, r *http.Request) error {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for _, p := range pieces {
			select {
			case <-each:
			case <-r.Context().Done():
				return context.Cause(r.Context())
			}
			if err := write(w, p); err != nil {
				return err
			}
		}
		return nil
	}
}

// A script is a next handler that sends a stream, and does what a test says, step by step.
type script struct {
	pieces []string // what it begins with
	media  string   // "" for an event stream
	stays  bool     // also when its request is cancelled
	steps  chan func(w http.ResponseWriter, r *http.Request) (over bool, err error)
	last   *resume.Split // which restPath answers
}

func newScript(pieces ...string) *script {
	return &script{pieces: pieces, steps: make(chan func(http.ResponseWriter, *http.Request) (bool, error))}
}

// restPath is where a test asks for the rest of a stream, as a handler finds it that knows the split.
const restPath = "/rest"

func (s *script) next(w http.ResponseWriter, r *http.Request) error {
	if strings.HasPrefix(r.URL.Path, restPath) {
		return s.last.Rest(w, r)
	}
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", cmp.Or(s.media, "text/event-stream"))
	w.Header().Set("X-Kind", "a")
	if err := write(w, s.pieces...); err != nil {
		return err
	}
	over := r.Context().Done()
	if s.stays {
		over = nil
	}
	for {
		select {
		case step := <-s.steps:
			if over, err := step(w, r); over || err != nil {
				return err
			}
		case <-over:
			return context.Cause(r.Context())
		}
	}
}

// write writes and flushes each piece.
func write(w http.ResponseWriter, pieces ...string) error {
	for _, piece := range pieces {
		if _, err := io.WriteString(w, piece); err != nil {
			return err
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			return err
		}
	}
	return nil
}

// do has the handler do f, and waits for it.
func (s *script) do(f func(w http.ResponseWriter, r *http.Request) error) {
	done := make(chan struct{})
	s.steps <- func(w http.ResponseWriter, r *http.Request) (bool, error) {
		defer close(done)
		return false, f(w, r)
	}
	<-done
}

// write has the handler write the pieces.
func (s *script) write(pieces ...string) {
	s.do(func(w http.ResponseWriter, _ *http.Request) error { return write(w, pieces...) })
}

// end has the handler end as f does.
func (s *script) end(f func() error) {
	s.steps <- func(http.ResponseWriter, *http.Request) (bool, error) { return true, f() }
}

// well ends a handler without an error.
func well() error { return nil }

// always is a channel that says yes.
func always() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// events returns n events.
func events(n int) (all []string) {
	for i := 1; i <= n; i++ {
		all = append(all, event(i))
	}
	return all
}

// request is what a client sends. Header has names and values by turns.
type request struct {
	method, path, body string
	header             []string
}

// post is a request that asks for a stream, with fields.
func post(header ...string) request {
	return request{http.MethodPost, otherPath, asking, append([]string{"Content-Type", "application/json"}, header...)}
}

// reply is an answer that is read as it comes.
type reply struct {
	*http.Response
	t     *testing.T
	in    *bufio.Reader
	leave context.CancelFunc
}

// do sends a request to a server.
func do(ctx context.Context, srv *httptest.Server, q request) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, q.method, srv.URL+q.path, strings.NewReader(q.body))
	if err != nil {
		return nil, err
	}
	setFields(r, q.header)
	return srv.Client().Do(r)
}

// send sends a request and returns its answer when the header has come.
func (l *lab) send(q request) *reply {
	l.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l.t.Cleanup(cancel)
	res, err := do(ctx, l.srv, q)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { res.Body.Close() })
	return &reply{res, l.t, bufio.NewReader(res.Body), cancel}
}

// sending sends a request whose answer is for later.
func (l *lab) sending(q request) <-chan *reply {
	answer := make(chan *reply, 1)
	go func() { answer <- l.send(q) }()
	return answer
}

// setFields adds names and values, by turns, to the header of r.
func setFields(r *http.Request, fields []string) {
	for i := 0; i < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
}

// next reads the next event, its blank line included, or "" at the end.
func (r *reply) next() string {
	r.t.Helper()
	var b strings.Builder
	for {
		line, err := r.in.ReadString('\n')
		b.WriteString(line)
		if line == "\n" {
			return b.String()
		}
		if err != nil {
			if err != io.EOF || b.Len() > 0 {
				r.t.Fatalf("%v after %q", err, b.String())
			}
			return ""
		}
	}
}

// rest reads to the end, which must be a clean one.
func (r *reply) rest() string {
	r.t.Helper()
	b, err := io.ReadAll(r.in)
	if err != nil {
		r.t.Fatalf("%v after %q", err, b)
	}
	return string(b)
}

// wantNext checks the next event.
func (r *reply) wantNext(want string) {
	r.t.Helper()
	if got := r.next(); got != want {
		r.t.Errorf("the next event is %.500q, want %.500q", got, want)
	}
}

// wantRest checks what comes to the end.
func (r *reply) wantRest(want string) {
	r.t.Helper()
	if got := r.rest(); got != want {
		r.t.Errorf("the rest is %.500q, %d bytes, want %.500q, %d bytes", got, len(got), want, len(want))
	}
}

// broken reads to the end, which must not be clean.
func (r *reply) broken() string {
	r.t.Helper()
	b, err := io.ReadAll(r.in)
	if err == nil {
		r.t.Fatalf("a clean end after %q", b)
	}
	return string(b)
}

// id returns the id of the stream.
func (r *reply) id() string { return r.Header.Get(resume.StreamHeader) }

// want checks the status.
func (r *reply) want(status int) *reply {
	r.t.Helper()
	if r.StatusCode != status {
		b, _ := io.ReadAll(r.in)
		r.t.Fatalf("status %d, want %d: %s", r.StatusCode, status, b)
	}
	return r
}

// over waits for the end of a run.
func (l *lab) over() resume.Ended {
	l.t.Helper()
	select {
	case e := <-l.told:
		return e
	case <-time.After(patience):
		l.t.Fatal("the run does not end")
		panic("")
	}
}

// wantOver checks why a run ends.
func (l *lab) wantOver(why log.Reason) {
	l.t.Helper()
	if e := l.over(); e.Reason != why {
		l.t.Errorf("the run ended for %v, want %v: %+v", e.Reason, why, e)
	}
}

// wantExpires checks that the run goes on for the time d without a client, and ends then.
func (l *lab) wantExpires(d time.Duration) resume.Ended {
	l.t.Helper()
	time.Sleep(d - 1)
	l.wantOpen(1)
	time.Sleep(1)
	e := l.over()
	if e.Reason != log.ReasonExpired || e.Detached != d {
		l.t.Errorf("the run ended for %v after %v, want %v", e.Reason, e.Detached, d)
	}
	return e
}

// leaves sends a request, in a bubble, reads an event and leaves. It returns when that is known.
func (l *lab) leaves(q request) *reply {
	l.t.Helper()
	r := l.send(q).want(http.StatusOK)
	r.next()
	r.leave()
	synctest.Wait()
	return r
}

// until waits until it is so.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never came that %s", what)
		}
	}
}

// wantAsked checks how many times next was called.
func (l *lab) wantAsked(n int64) {
	l.t.Helper()
	if got := l.asked.Load(); got != n {
		l.t.Errorf("next was called %d times, want %d", got, n)
	}
}

// wantEmpty checks that no log is kept.
func (l *lab) wantEmpty() {
	l.t.Helper()
	if used, logs := l.store.Used(); used != 0 || logs != 0 {
		l.t.Errorf("%d bytes of %d logs are left", used, logs)
	}
	if n := l.runs.Stats().Awaiting; n != 0 {
		l.t.Errorf("%d runs await a client", n)
	}
}

// numbered returns the stream with ids.
func numbered(id string, from int, events ...string) string {
	return withIDs(id+"/", from, events...)
}

// withIDs returns the stream with numbers after the prefix.
func withIDs(prefix string, from int, events ...string) string {
	var b strings.Builder
	for i, e := range events {
		b.WriteString(strings.TrimSuffix(e, "\n") + "id: " + prefix + strconv.Itoa(from+i) + "\n\n")
	}
	return b.String()
}

// chunk is one of a chat completion.
const chunk = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"hermes-agent","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}` + "\n\n"

// chat is a request for a chat completion, with fields.
func chat(header ...string) request {
	q := post(header...)
	q.path = chatPath
	return q
}

// silent is a next handler that sends one chunk and then nothing.
func silent(w http.ResponseWriter, r *http.Request) error {
	return streams([]string{chunk, ""}, onlyOnce())(w, r)
}

// onlyOnce is a channel that says yes once.
func onlyOnce() <-chan struct{} {
	c := make(chan struct{}, 1)
	c <- struct{}{}
	return c
}

// wantDetached checks how many runs go on without a client, when nothing happens any more.
func (l *lab) wantDetached(n int64) {
	l.t.Helper()
	synctest.Wait()
	if got := l.runs.Stats().Detached; got != n {
		l.t.Fatalf("%d runs are detached, want %d", got, n)
	}
}

// wantOpen checks how many runs are open, when nothing happens any more.
func (l *lab) wantOpen(n int) {
	l.t.Helper()
	synctest.Wait()
	if got := l.runs.Open(); got != n {
		l.t.Fatalf("%d runs are open, want %d", got, n)
	}
}

// problemOf checks that the answer is a problem with the status, and returns it.
func problemOf(t *testing.T, r *reply, status int) map[string]any {
	t.Helper()
	r.want(status)
	if got := r.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("Content-Type %q", got)
	}
	if got := r.Header.Get("X-Should-Retry"); got != "false" {
		t.Errorf("X-Should-Retry %q", got)
	}
	var p map[string]any
	if err := json.Unmarshal([]byte(r.rest()), &p); err != nil {
		t.Error(err)
	}
	if p["status"] != float64(status) || p["title"] == "" || p["detail"] == "" {
		t.Errorf("problem %v", p)
	}
	return p
}

// dial connects to a server, and sends a request.
func dial(t *testing.T, srv *httptest.Server, request string, args ...any) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	_, _ = fmt.Fprintf(c, request, args...)
	return c
}

// silentClient sends a request with a key, and reads nothing.
func silentClient(t *testing.T, l *lab) net.Conn {
	t.Helper()
	return dial(t, l.srv, "POST %s HTTP/1.1\r\nHost: %s\r\n%s: k\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		otherPath, l.srv.Listener.Addr(), key, len(asking), asking)
}

// keyed is a POST with the key k, for a handler without a server.
func keyed(path string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(asking))
	r.Header.Set(key, "k")
	return r
}

// oddStore is a store some of whose calls a test answers. Calls whose function is nil go to the Store.
type oddStore struct {
	log.Store
	claims atomic.Int64
	claim  func(ctx context.Context, e log.Entry, n int64) error // what the nth claim fails with; with errDropped it finds a log that was dropped
	writer func(e log.Entry, w log.Writer) log.Writer            // what a claim returns instead
	find   func(id string) error
	read   func(ctx context.Context) log.Reader // nil for the reader of the Store
	remove error                                // of Delete
}

var errAway, errDropped = errors.New("away"), errors.New("dropped")

func (s *oddStore) Claim(ctx context.Context, e log.Entry, run log.Run) (log.Entry, log.Writer, error) {
	if s.claim != nil {
		if err := s.claim(ctx, e, s.claims.Add(1)); err == errDropped {
			return e, nil, nil
		} else if err != nil {
			return log.Entry{}, nil, err
		}
	}
	have, w, err := s.Store.Claim(ctx, e, run)
	if s.writer != nil {
		w = s.writer(e, w)
	}
	return have, w, err
}

func (s *oddStore) Find(ctx context.Context, id string) (log.Entry, error) {
	if s.find != nil {
		if err := s.find(id); err != nil {
			return log.Entry{}, err
		}
	}
	return s.Store.Find(ctx, id)
}

func (s *oddStore) Read(ctx context.Context, id string, n uint64) log.Reader {
	if s.read != nil {
		if r := s.read(ctx); r != nil {
			return r
		}
	}
	return s.Store.Read(ctx, id, n)
}

func (s *oddStore) Delete(ctx context.Context, id string) error {
	if s.remove != nil {
		return s.remove
	}
	return s.Store.Delete(ctx, id)
}

// odd has claims of the store answered.
func odd(claim func(n int64) error) func(*resume.Options) {
	return func(o *resume.Options) {
		o.Store = &oddStore{Store: o.Store, claim: func(_ context.Context, _ log.Entry, n int64) error { return claim(n) }}
	}
}

// awayIf returns errAway if it is so.
func awayIf(is bool) error {
	if is {
		return errAway
	}
	return nil
}
