package splice_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/proxytest"
	"github.com/hermes-sidecar/hermes-sidecar/resume"
	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
	"github.com/hermes-sidecar/hermes-sidecar/resume/splice"
)

// road is a site with hermes_resume, and the network between it and a client. All of it is in
// memory, so that a test may be in a bubble.
type road struct {
	t      *testing.T
	ctx    context.Context // of the client
	leave  context.CancelFunc
	client *http.Client
	asked  atomic.Int64    // upstream, with a POST
	ends   chan log.Reason // of runs
	server *http.Server
	site   *proxytest.Pipes
	mu     sync.Mutex
	log    []string // the requests that have come to the site

	// damage is what becomes of the connection with the number n, which counts from 1.
	damage func(n int) damage
	opened atomic.Int64
}

// damage is what becomes of a connection. The zero value is none.
type damage struct {
	refused bool
	slow    time.Duration // how long it takes to be there
	after   int           // bytes after which it breaks; 0 for never
	quietly bool          // nobody is told
	idle    time.Duration // without a byte, after which it breaks; 0 for never
}

// newRoad returns a road to a site with hermes_resume that answers by next.
func newRoad(t *testing.T, tr *splice.Transport, next http.HandlerFunc) *road {
	r := new(road)
	o := resume.DefaultOptions()
	o.Ended = func(_ *http.Request, e resume.Ended) { r.ends <- e.Reason }
	site := resume.New(o).Handler(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method == http.MethodPost {
			r.asked.Add(1)
		}
		next(w, q)
	}))
	r.open(t, tr, site)
	return r
}

// open opens the road to a site.
func (r *road) open(t *testing.T, tr *splice.Transport, site http.Handler) {
	r.t, r.ends, r.site = t, make(chan log.Reason, 10), proxytest.NewPipes()
	r.damage = func(int) damage { return damage{} }
	r.ctx, r.leave = context.WithCancel(context.Background())
	r.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.mu.Lock()
		r.log = append(r.log, q.Method+" "+q.Header.Get("Last-Event-Id"))
		r.mu.Unlock()
		site.ServeHTTP(w, q)
	})}
	go func() { _ = r.server.Serve(r.site) }()
	net := &http.Transport{DialContext: r.dial, DisableKeepAlives: true, DisableCompression: true}
	tr.Next = net
	r.client = &http.Client{Transport: tr}
	t.Cleanup(func() {
		r.leave()
		_ = r.server.Close()
		net.CloseIdleConnections()
	})
}

func (r *road) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := r.damage(int(r.opened.Add(1)))
	if d.refused {
		return nil, errors.New("refused")
	}
	select {
	case <-time.After(d.slow):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	c, err := r.site.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &damaged{Conn: c, damage: d, left: d.after, closed: make(chan struct{})}, nil
}

// damaged is a connection that breaks after so many bytes of an answer's body.
type damaged struct {
	net.Conn
	damage
	left   int
	once   sync.Once
	closed chan struct{}
}

func (c *damaged) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

func (c *damaged) Read(p []byte) (int, error) {
	if c.idle > 0 {
		_ = c.SetReadDeadline(time.Now().Add(c.idle))
	}
	if c.after == 0 {
		return c.Conn.Read(p)
	}
	if c.left == 0 {
		if c.quietly {
			_, _ = io.Copy(io.Discard, c.Conn) // the other end's bytes are lost, and its end
			<-c.closed
			return 0, net.ErrClosed
		}
		_ = c.Conn.Close()
		return 0, errors.New("broken")
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// post asks for a stream.
func (r *road) post(fields ...string) (*http.Response, error) {
	q, err := http.NewRequestWithContext(r.ctx, http.MethodPost, "http://site/v1/chat/completions", strings.NewReader(`{"stream":true}`))
	if err != nil {
		r.t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer key")
	for i := 0; i < len(fields); i += 2 {
		q.Header.Set(fields[i], fields[i+1])
	}
	return r.client.Do(q)
}

// begin is post for what gets an answer.
func (r *road) begin(fields ...string) *http.Response {
	r.t.Helper()
	res, err := r.post(fields...)
	if err != nil {
		r.t.Fatal(err)
	}
	return res
}

// all asks for a stream and returns it with ID for its id.
func (r *road) all() string {
	r.t.Helper()
	res := r.begin()
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatalf("%v after %q", err, b)
	}
	return strings.ReplaceAll(string(b), res.Header.Get(resume.StreamHeader), "ID")
}

// theirs returns a stream without comments of ours.
func theirs(stream string) string { return strings.ReplaceAll(stream, ": keepalive\n", "") }

// over returns what a client gets of the pieces over a road with damage. The site is asked once.
func over(t *testing.T, pieces []string, harm func(n int) damage) (got string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRoad(t, new(splice.Transport), answers(pieces...))
		r.damage = harm
		got = r.all()
		if n := r.asked.Load(); n != 1 {
			t.Errorf("upstream was asked %d times", n)
		}
	})
	return got
}

// answers returns a handler that sends the pieces, one a second.
func answers(pieces ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		for _, piece := range pieces {
			select {
			case <-time.After(time.Second):
			case <-q.Context().Done():
				return
			}
			_, _ = io.WriteString(w, piece)
			_ = http.NewResponseController(w).Flush()
		}
	}
}

// TestIdleConnectionThatIsClosed by the site just when a request is about to be sent on it: the request goes on
// another one. What the site has had is not sent again by net/http, which knows no probe.
func TestIdleConnectionThatIsClosed(t *testing.T) {
	proxytest.Bubble(t, "before the request", func(t *testing.T) {
		r := newRoad(t, new(splice.Transport), answers("data: [DONE]\n\n"))
		r.keepAlive(func() { r.server.SetKeepAlivesEnabled(false) })
		first, again := r.all(), r.all()
		if n := r.opened.Load(); again != first || n != 2 {
			t.Errorf("on %d connections it gets %q, want two and %q", n, again, first)
		}
	})
	proxytest.Bubble(t, "after the request", func(t *testing.T) {
		r, closes := new(road), false
		r.open(t, new(splice.Transport), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if closes {
				panic(http.ErrAbortHandler)
			}
			_, _ = io.WriteString(w, "{}")
		}))
		r.keepAlive(func() { closes = true })
		r.all()
		if res, err := r.post(); err == nil {
			t.Errorf("it gets %s", res.Status)
		}
		if posts := strings.Count(fmt.Sprint(r.log), http.MethodPost); posts != 2 {
			t.Errorf("the site was asked %q", r.log)
		}
	})
}

// keepAlive has connections serve more than one request. Before one is used again it calls reused.
func (r *road) keepAlive(reused func()) {
	r.client.Transport.(*splice.Transport).Next.(*http.Transport).DisableKeepAlives = false
	r.ctx = httptrace.WithClientTrace(r.ctx, &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
		if c.Reused {
			reused()
			synctest.Wait()
		}
	}})
}

// endings are streams that differ in what their lines end with, and in how they end.
var endings = map[string][]string{
	"LF":        {": open\n\n", "data: 1\n\n", "event: x\ndata: 2\ndata: more\n\n", ": wait\n\ndata: 3\n\n", "data: [DONE]\n\n"},
	"CRLF":      {"data: 1\r\n\r\n", ": wait\r\n\r\n", "data: 2\r\n\r\n", "data: [DONE]\r\n\r\n"},
	"CR":        {"data: 1\r\r", "data: 2\r\r"},
	"no end":    {"data: 1\n\n", "event: done\ndata: {}\n\n"},
	"a comment": {"data: 1\n\n", ": stream closed\n\n"},
}

// TestBreakAtEachByte breaks the first connection after each byte, and each later one soon.
func TestBreakAtEachByte(t *testing.T) {
	for name, pieces := range endings {
		t.Run(name, func(t *testing.T) {
			breakAt := func(at int) string {
				return theirs(over(t, pieces, func(n int) damage {
					if n > 3 {
						return damage{}
					}
					return damage{after: at}
				}))
			}
			want := breakAt(0)
			for at := 1; at < len(want)+600; at++ { // the header takes less than that
				if got := breakAt(at); got != want {
					t.Fatalf("broken after %d bytes:\n got %q\nwant %q", at, got, want)
				}
			}
		})
	}
}

// TestConnectionThatSaysNothing comes back when a connection is dead without a word.
func TestConnectionThatSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoad(t, new(splice.Transport), answers(endings["LF"]...))
		r.damage = func(n int) damage {
			if n == 1 {
				return damage{after: 320, quietly: true}
			}
			return damage{}
		}
		begun := time.Now()
		if got := theirs(r.all()); !strings.HasSuffix(got, "data: [DONE]\nid: ID/4\n\n") || strings.Count(got, "data: 2\n") != 1 {
			t.Errorf("got %q", got)
		}
		if took := time.Since(begun); took < 45*time.Second || took > 60*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// shortens is an http.RoundTripper that ends the body of the first answer after so many bytes.
type shortens struct {
	http.RoundTripper
	after int64
}

func (s *shortens) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := s.RoundTripper.RoundTrip(r)
	if err == nil && s.after >= 0 {
		res.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(res.Body, s.after), res.Body}
		s.after = -1
	}
	return res, err
}

// TestEndThatIsNone comes back if a proxy in between ends the answer well in the middle.
func TestEndThatIsNone(t *testing.T) {
	for name, pieces := range endings {
		t.Run(name, func(t *testing.T) {
			short := func(after int64) (got string) {
				synctest.Test(t, func(t *testing.T) {
					tr := new(splice.Transport)
					r := newRoad(t, tr, answers(pieces...))
					tr.Next = &shortens{tr.Next, after}
					got = theirs(r.all())
				})
				return got
			}
			want := short(-1)
			for at := range int64(len(want)) {
				if got := short(at); got != want {
					t.Fatalf("ended after %d bytes:\n got %q\nwant %q", at, got, want)
				}
			}
		})
	}
}

// TestSiteThatDoesNotComeBack gives up after ResumeFor, with comments until then.
func TestSiteThatDoesNotComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoad(t, &splice.Transport{ResumeFor: 30 * time.Second}, answers(endings["LF"]...))
		r.damage = func(n int) damage { return damage{after: 320, refused: n > 1} }
		begun := time.Now()
		res := r.begin()
		b, err := io.ReadAll(res.Body)
		if err == nil || strings.Count(string(b), ": keepalive\n") < 3 {
			t.Errorf("%v after %q", err, b)
		}
		if took := time.Since(begun); took < 20*time.Second || took > 40*time.Second {
			t.Errorf("gave up after %v", took)
		}
	})
}

// TestClientThatLeaves ends the run, at once or, before there is an answer, as soon as there is one.
func TestClientThatLeaves(t *testing.T) {
	for name, test := range map[string]struct {
		tr     splice.Transport
		fields []string
		early  bool // the client leaves before the answer begins
		want   log.Reason
		within time.Duration
	}{
		"in the stream":        {want: log.ReasonDeleted, within: time.Second},
		"before the answer":    {early: true, want: log.ReasonDeleted, within: 4 * time.Second},
		"with detach":          {tr: splice.Transport{Detach: true}, want: log.ReasonExpired, within: resume.DefaultDetach + time.Second},
		"that has its own key": {fields: []string{resume.KeyHeader, "own"}, want: log.ReasonExpired, within: resume.DefaultDetach + time.Second},
		"that asks to detach":  {fields: []string{resume.DetachHeader, "20s"}, want: log.ReasonExpired, within: 22 * time.Second},
	} {
		proxytest.Bubble(t, name, func(t *testing.T) {
			r := newRoad(t, &test.tr, func(w http.ResponseWriter, q *http.Request) {
				time.Sleep(3 * time.Second)
				answers("data: 1\n\n")(w, q)
				<-q.Context().Done()
			})
			if test.early {
				time.AfterFunc(time.Second, r.leave)
			}
			res, err := r.post(test.fields...)
			if test.early != (err != nil) {
				t.Fatal(err)
			}
			if err == nil {
				if _, err := bufio.NewReader(res.Body).ReadString('\n'); err != nil {
					t.Fatal(err)
				}
				r.leave()
			}
			left := time.Now()
			if got := <-r.ends; got != test.want {
				t.Errorf("the run ended: %v, want %v", got, test.want)
			}
			if took := time.Since(left); took > test.within {
				t.Errorf("after %v", took)
			}
			synctest.Wait()
		})
	}
}

// TestStreamThatIsOver deletes nothing: others may still read it.
func TestStreamThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoad(t, new(splice.Transport), answers(endings["LF"]...))
		r.all()
		r.leave()
		time.Sleep(time.Minute)
		if fmt.Sprint(r.log) != "[POST ]" {
			t.Errorf("the site was asked %q", r.log)
		}
	})
}

// TestWhatIsNoStream passes as it is, and is asked for once.
func TestWhatIsNoStream(t *testing.T) {
	for name, test := range map[string]struct {
		method, body, media string
		next                http.HandlerFunc
	}{
		"a GET":              {method: http.MethodGet, media: "application/json"},
		"no stream asked":    {method: http.MethodPost, body: `{"stream":false}`, media: "application/json"},
		"no JSON":            {method: http.MethodPost, body: `{"stream":true}`, media: "audio/wav"},
		"an error":           {method: http.MethodPost, body: `{"stream":true}`, media: "application/json"},
		"a request too long": {method: http.MethodPost, body: `{"stream":true,"x":"` + strings.Repeat("x", 11<<20) + `"}`, media: "application/json"},
	} {
		proxytest.Bubble(t, name, func(t *testing.T) {
			r := newRoad(t, new(splice.Transport), func(w http.ResponseWriter, q *http.Request) {
				b, _ := io.ReadAll(q.Body)
				w.WriteHeader(http.StatusBadGateway)
				_, _ = fmt.Fprint(w, q.Method, " ", len(b))
			})
			q, _ := http.NewRequest(test.method, "http://site/v1/chat/completions", strings.NewReader(test.body))
			q.Header.Set("Content-Type", test.media)
			res, err := r.client.Do(q)
			if err != nil {
				t.Fatal(err)
			}
			b, _ := io.ReadAll(res.Body)
			if want := fmt.Sprint(test.method, " ", len(test.body)); res.StatusCode != http.StatusBadGateway || string(b) != want || len(r.log) != 1 {
				t.Errorf("got %d %q after %q, want %q", res.StatusCode, b, r.log, want)
			}
		})
	}
}

// TestSiteThatCannotBeReached is told at once, so that whoever balances load asks another one.
func TestSiteThatCannotBeReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoad(t, new(splice.Transport), answers())
		r.damage = func(int) damage { return damage{refused: true} }
		begun := time.Now()
		if _, err := r.post(); err == nil || time.Since(begun) > 0 || r.opened.Load() != 1 {
			t.Errorf("%v after %v and %d connections", err, time.Since(begun), r.opened.Load())
		}
	})
}
