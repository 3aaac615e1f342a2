package clients

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
)

// The way of one question to the sidecar, and the sidecars and storages on it.

// A journey is one question, and the relay on the way to the sidecar that cuts the
// connection.
type journey struct {
	at     place
	kind   string
	prompt string
	want   string // the text of the answer
	url    string // for the client
	to     *url.URL
	kill   func()            // kills the sidecar and starts it again
	stored func(what string) // returns when Redis has a text, if the question has a log

	asked  atomic.Int64                  // how often the agent ran
	reads  atomic.Int64                  // how often the events of a run were asked for
	tries  atomic.Int64                  // how often the client asked
	begun  chan struct{}                 // closed when the agent was asked
	cut    chan struct{}                 // closed when the connection is cut
	back   chan struct{}                 // closed when the client has come back, or given up
	over   chan struct{}                 // closed when the run is over
	giveUp func()                        // closes back
	wentAt atomic.Pointer[time.Time]     // when the connection was cut
	away   atomic.Pointer[time.Duration] // how long after that the client came back
}

// newJourney prepares a question.
func (c *cutBench) newJourney(t *testing.T, p place) *journey {
	t.Helper()
	n := c.up.asked.Add(1)
	j := &journey{
		at: p, kind: c.way.kind, prompt: fmt.Sprintf("cut-%d-", n), want: c.up.texts[c.way.kind],
		begun: make(chan struct{}), cut: make(chan struct{}), back: make(chan struct{}), over: make(chan struct{}),
		kill: func() {}, stored: func(string) {},
	}
	j.giveUp = sync.OnceFunc(func() { close(j.back) })
	c.up.journeys.Store(fmt.Sprint(n), j)
	base := c.base
	switch {
	case p.killed:
		base = j.startWithRedis(t, c)
	case c.way.resume != "":
		base, _ = sidecar.ServeCaddyfile(t, cutSite(c.way.resume, c.up.server.Addr))
	}
	j.to, _ = url.Parse(base)
	relay := httptest.NewServer(j)
	t.Cleanup(func() {
		relay.CloseClientConnections()
		relay.Close()
	})
	j.url = relay.URL
	if c.way.beside {
		j.url = startBeside(t, relay.URL)
	}
	return j
}

// uncounted is the number of a request that is not for the answer.
const uncounted = 0

// count returns which of the client's requests for the answer r is, from 1, or uncounted.
func (j *journey) count(r *http.Request) int64 {
	if r.Method == http.MethodPost && j.kind == kindRun || r.Method == http.MethodDelete {
		return uncounted
	}
	return j.tries.Add(1)
}

// ServeHTTP passes a request on to the sidecar, and its answer back as it comes, up to the
// cut.
func (j *journey) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/run.html") {
		http.ServeFile(w, r, filepath.Join("node", "run.html"))
		return
	}
	if strings.HasSuffix(r.URL.Path, "/models") {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"object": "list", "data": [{"id": "hermes-agent", "object": "model", "created": 1795165766, "owned_by": "hermes"}]}`)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	n := j.count(r)
	if n == 2 {
		if at := j.wentAt.Load(); at != nil {
			d := time.Since(*at)
			j.away.Store(&d)
		}
		if j.at.late {
			wait(r, j.over)
		}
		if j.at.late && j.at.killed {
			j.stored("\nwhole\r")
			j.kill()
		}
		j.giveUp()
	}
	up := r.Clone(r.Context())
	up.URL.Scheme, up.URL.Host, up.RequestURI = j.to.Scheme, j.to.Host, ""
	up.Body, up.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	conn, err := net.Dial("tcp", j.to.Host)
	if err != nil {
		panic(http.ErrAbortHandler) // as the sidecar does
	}
	defer conn.Close()
	transport := &http.Transport{DisableCompression: true, DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
		return conn, nil
	}}
	if n == 1 && j.at.behind == nil {
		left := make(chan struct{})
		go func() {
			defer close(left)
			if res, err := transport.RoundTrip(up); err == nil {
				res.Body.Close()
			}
		}()
		wait(r, j.begun)
		j.cutNow(conn.(*net.TCPConn), func() { <-left })
	}
	res, err := transport.RoundTrip(up)
	if err != nil {
		panic(http.ErrAbortHandler) // as the sidecar does
	}
	defer res.Body.Close()
	maps.Copy(w.Header(), res.Header)
	w.WriteHeader(res.StatusCode)
	out := flusher{w, http.NewResponseController(w)}
	if n == 1 && copyTo(out, res.Body, j.at.behind[j.kind]) {
		j.cutNow(conn.(*net.TCPConn), func() { _, _ = io.Copy(io.Discard, res.Body) })
	}
	if _, err := io.Copy(out, res.Body); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// wait returns when c is closed, or the client has left.
func wait(r *http.Request, c <-chan struct{}) {
	select {
	case <-c:
	case <-r.Context().Done():
	}
}

// flusher sends at once what is written.
type flusher struct {
	io.Writer
	at *http.ResponseController
}

func (f flusher) Write(p []byte) (int, error) {
	n, err := f.Writer.Write(p)
	_ = f.at.Flush() // the client may have left
	return n, err
}

// readsOn is how long after the last event the connection is cut of a client that waits for its end.
const readsOn = 10 * time.Second

// cutNow ends the connection to the sidecar, waits with left until that has noticed, and ends the one
// to the client. Otherwise the sidecar might send the rest to a client that has gone.
func (j *journey) cutNow(site *net.TCPConn, left func()) {
	if j.at.killed && !j.at.late {
		j.stored("Let me")
		j.kill()
	}
	if at := j.at.behind[j.kind]; at != nil && at == atEnd[j.kind] {
		select { // a client that stops reading there has all
		case <-j.back:
		case <-time.After(readsOn):
		}
	}
	_ = site.CloseWrite() // the sidecar may have been killed
	left()
	now := time.Now()
	j.wentAt.Store(&now)
	close(j.cut)
	panic(http.ErrAbortHandler)
}

// startBeside starts a sidecar as it is beside a client, in front of a distant site.
func startBeside(t *testing.T, site string) (base string) {
	t.Helper()
	listen := harness.FreePort(t)
	sidecar.Launch(t, sidecar.Environment(t.TempDir()), "hermes proxying", "hermes-proxy", "--resume", "--from", "http://"+listen, "--bind", "127.0.0.1", "--to", strings.TrimPrefix(site, "http://"))
	return "http://" + listen
}

// startWithRedis starts a sidecar that keeps its streams in a Redis of the journey's own.
func (j *journey) startWithRedis(t *testing.T, c *cutBench) (base string) {
	t.Helper()
	program := harness.Program(t, "HERMES_REDIS", "valkey-server", "redis-server")
	dir, addr, listen, home := t.TempDir(), harness.FreePort(t), harness.FreePort(t), t.TempDir()
	redis := harness.Start(t, exec.Command(program, "--port", harness.Port(addr), "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes", "--dir", dir))
	if !redis.Await("Ready to accept connections") {
		t.Fatalf("redis does not start:\n%s", redis.Log)
	}
	storage := fmt.Sprintf("storage redis {\naddress %s\nsecret 0123456789abcdef\nlease 5s\n}\n", addr)
	text := "{\n\tadmin off\n}\n" + sidecar.OnLoopback(listen) + cutSite(storage+c.way.resume, c.up.server.Addr) + "\n}\n"
	caddy := sidecar.BuildOf(t, "resume/redis", harness.RaceEnabled)
	file := filepath.Join(home, "Caddyfile")
	harness.WriteFile(t, file, []byte(text))
	start := func() *sidecar.Process {
		cmd := exec.Command(caddy, "run", "--config", file, "--adapter", "caddyfile")
		cmd.Env = sidecar.Environment(home)
		return sidecar.Follow(t, cmd, "serving initial configuration")
	}
	running := start()
	j.kill = func() {
		running.Kill()
		running = start()
	}
	written := func() string {
		var all strings.Builder
		files, _ := filepath.Glob(filepath.Join(dir, "appendonlydir", "*.aof"))
		for _, f := range files {
			b, _ := os.ReadFile(f)
			all.Write(b)
		}
		return all.String()
	}
	j.stored = func(what string) {
		if !strings.Contains(written(), "claimed") {
			return // the request has asked for no log
		}
		harness.Until(t, fmt.Sprintf("redis has %q", what), func() bool { return strings.Contains(written(), what) })
	}
	return "http://" + listen
}
