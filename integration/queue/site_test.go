// Package queue tests from the outside that requests wait in line for an agent that takes only so
// many at once: who is served, in which order, what those that wait are told, and that no
// place is lost, whatever happens to them.
package queue

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/metrics"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
)

// A place is a sidecar with a line in front of an agent.
type place struct {
	*hermes.Agent
	t     testing.TB
	base  string
	http  *http.Client
	caddy *sidecar.Process
	lines site
	freed int          // calls of free
	loads *atomic.Bool // a configuration has been replaced
}

// A site is what a place's site has.
type site struct {
	resume string   // options of hermes_resume, "" for none
	queue  []string // options of hermes_queue
	hermes []string // options of hermes
	proxy  string   // what reverse_proxy has after the agent's address
	before string   // directives
	route  string   // directives in the place of all of these; AGENT is the agent's address
	grace  string
}

// newPlace starts a sidecar with options of hermes_queue, in front of an agent with a cap.
func newPlace(t testing.TB, limit int, queue ...string) *place {
	t.Helper()
	return newPlaceOf(t, hermes.New(t, limit), site{queue: queue})
}

// newPlaceOf starts it in front of an agent that is there.
func newPlaceOf(t testing.TB, a *hermes.Agent, s site, env ...string) *place {
	t.Helper()
	listen, admin := harness.FreePort(t), harness.FreePort(t)
	p := &place{Agent: a, t: t, base: "http://" + listen, lines: s, loads: new(atomic.Bool)}
	transport := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	p.http = &http.Client{Transport: transport}
	p.caddy = sidecar.RunCaddyfile(t, t.TempDir(), p.caddyfile(admin, s), env...)
	p.caddy.Admin = admin
	return p
}

// caddyfile is the configuration of a place.
func (p *place) caddyfile(admin string, s site) string {
	block := func(name string, options []string) string {
		if len(options) == 0 {
			return "\t" + name + "\n"
		}
		return "\t" + name + " {\n\t\t" + strings.Join(options, "\n\t\t") + "\n\t}\n"
	}
	text := "{\n\tadmin " + admin + "\n\tgrace_period " + cmp.Or(s.grace, "2s") + "\n\tservers {\n\t\ttrusted_proxies static 127.0.0.1/32\n\t}\n}\n" +
		sidecar.OnLoopback(strings.TrimPrefix(p.base, "http://")) + "\tlog\n\t" + s.before + "\n"
	if s.route != "" {
		return text + "route {\n" + strings.ReplaceAll(s.route, "AGENT", p.Addr) + "\n}\n}\n"
	}
	if s.resume != "" {
		text += block("hermes_resume", []string{s.resume})
	}
	queue := s.queue
	if !slices.ContainsFunc(queue, func(option string) bool { return strings.HasPrefix(option, "wait ") }) {
		queue = append(slices.Clone(queue), "wait 1h") // no test is so slow that a request waits too long
	}
	return text + block("hermes_queue", queue) + block("hermes", s.hermes) + "\treverse_proxy " + p.Addr + s.proxy + "\n}\n"
}

// load replaces the configuration.
func (p *place) load(s site) {
	p.t.Helper()
	p.loadText(p.caddyfile(p.caddy.Admin, s))
}

func (p *place) loadText(text string) {
	p.t.Helper()
	p.loads.Store(true)
	p.caddy.LoadCaddyfile(text)
}

// metric returns the value of a metric of the line.
func (p *place) metric(name string, labels ...string) float64 {
	p.t.Helper()
	return metrics.Scrape(p.t, "http://"+p.caddy.Admin+"/metrics").Value("caddy_hermes_queue_"+name, labels...)
}

// untilWaiting waits until so many requests are in line.
func (p *place) untilWaiting(n int) {
	p.t.Helper()
	harness.Until(p.t, fmt.Sprintf("%d wait", n), func() bool { return p.metric("waiting") == float64(n) })
}

// A kind is a sort of request.
type kind struct {
	path, body string // of which the prompt is a %s
	stream     bool
}

// The kinds of requests that begin a run.
var (
	chat      = kind{"/v1/chat/completions", `{"model": "hermes-agent", "stream": true, "messages": [{"role": "user", "content": %s}]}`, true}
	whole     = kind{"/v1/chat/completions", `{"model": "hermes-agent", "messages": [{"role": "user", "content": %s}]}`, false}
	responses = kind{"/v1/responses", `{"model": "hermes-agent", "stream": true, "input": %s}`, true}
	response  = kind{"/v1/responses", `{"model": "hermes-agent", "input": %s}`, false}
	session   = kind{"/api/sessions/s1/chat/stream", `{"message": %s}`, true}
	runs      = kind{"/v1/runs", `{"input": %s}`, false}
)

var kinds = map[string]kind{"chat": chat, "chat, not streamed": whole, "responses": responses, "responses, not streamed": response, "session": session, "run": runs}

// A pending is a request that has been sent, and what is known of its answer.
type pending struct {
	t      testing.TB
	prompt string
	leave  context.CancelFunc
	header chan struct{} // closed when the header has come, or never will
	done   chan struct{} // closed when the answer has come, or broken off
	reply  *http.Response
	err    error
	body   bytes.Buffer
	status harness.Log // what has come so far
}

// ask sends a request of a client, and reads its answer in the background. More header fields are
// name, value, name, value.
func (p *place) ask(k kind, key, prompt string, header ...string) *pending {
	return p.send(http.MethodPost, k.path, fmt.Sprintf(k.body, hermes.ASCII(prompt)), prompt, append([]string{"Authorization", "Bearer " + key}, header...)...)
}

// send sends a request. A body whose Content-Encoding is said is typed: its end comes later.
func (p *place) send(method, path, body, prompt string, header ...string) *pending {
	ctx, leave := context.WithCancel(context.Background())
	q := &pending{t: p.t, prompt: prompt, leave: leave, header: make(chan struct{}), done: make(chan struct{})}
	p.t.Cleanup(leave)
	req, err := http.NewRequestWithContext(ctx, method, p.base+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	if encoding := req.Header.Get("Content-Encoding"); encoding != "" {
		types(req, body, encoding == "gzip")
	}
	go func() {
		defer leave()
		defer close(q.done)
		q.reply, q.err = p.http.Do(req)
		// The server before a reload may close the connection of a request unread, or just as it has read it.
		for p.loads.Load() && client.Again(req, q.err) {
			p.Leaving(prompt)
			q.reply, q.err = p.http.Do(req)
		}
		close(q.header)
		if q.err != nil {
			return
		}
		defer q.reply.Body.Close()
		_, q.err = io.Copy(io.MultiWriter(&q.body, &q.status), q.reply.Body)
	}()
	return q
}

// types gives req a body whose end comes later.
func types(req *http.Request, body string, zips bool) {
	if zips {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		io.WriteString(w, body)
		w.Close()
		body = b.String()
	} else {
		req.Header.Del("Content-Encoding")
	}
	half := len(body) / 2
	req.ContentLength = int64(len(body))
	req.GetBody = func() (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(strings.NewReader(body[:half]), pause(100*time.Millisecond), strings.NewReader(body[half:]))), nil
	}
	req.Body, _ = req.GetBody()
}

// A pause is a reader of nothing, for a while.
type pause time.Duration

func (p pause) Read([]byte) (int, error) {
	time.Sleep(time.Duration(p))
	return 0, io.EOF
}

// leaves leaves, and waits until the request is over here.
func (p *place) leaves(q *pending) {
	p.Leaving(q.prompt)
	q.leave()
	<-q.done
}

// ends waits for the end of the answer, and returns it.
func (q *pending) ends() (status int, body string) {
	q.t.Helper()
	select {
	case <-q.done:
	case <-time.After(harness.Patience): // of what the test has to wait for, not of the request
		q.t.Fatalf("%s: no end after %q", q.prompt, harness.Clip(q.status.String()))
	}
	if q.err != nil {
		q.t.Fatalf("%s: %v after %q", q.prompt, q.err, harness.Clip(q.body.String()))
	}
	return q.reply.StatusCode, q.body.String()
}

// says waits until the answer so far has a text.
func (q *pending) says(text string) {
	q.t.Helper()
	harness.Until(q.t, q.prompt+" is told "+text, func() bool {
		if strings.Contains(q.status.String(), text) {
			return true
		}
		select {
		case <-q.done:
			q.t.Fatalf("%s: instead of %q: %v %q", q.prompt, text, q.err, harness.Clip(q.body.String()))
		default:
		}
		return false
	})
}

// good wants an answer of the agent's.
func (q *pending) good(k kind) {
	q.t.Helper()
	status, body := q.ends()
	want := http.StatusOK
	if k == runs {
		want = http.StatusAccepted
	}
	if status != want {
		q.t.Errorf("%s: %d %s", q.prompt, status, harness.Clip(body))
		return
	}
	switch k {
	case chat:
		a := strict.Decode(q.t, body)
		a.CheckGood(q.t)
		if a.Content != "bye" {
			q.t.Errorf("%s: the answer is %q", q.prompt, a.Content)
		}
	case whole:
		if !strings.Contains(body, `"content": "bye"`) {
			q.t.Errorf("%s: %s", q.prompt, body)
		}
	case responses:
		frames := decode(q.t, body)
		if n := len(frames); n < 2 || frames[n-1].Name != "response.completed" || strings.Count(body, "event: response.created") != 1 {
			q.t.Errorf("%s: %s", q.prompt, body)
		}
	case session:
		frames := decode(q.t, body)
		if n := len(frames); n < 2 || frames[n-1].Name != "done" || frames[n-2].Name != "run.completed" || strings.Count(body, "event: run.started") != 1 {
			q.t.Errorf("%s: %s", q.prompt, body)
		}
	case response:
		if !strings.Contains(body, `"completed"`) {
			q.t.Errorf("%s: %s", q.prompt, body)
		}
	case runs:
		if q.runID() == "" {
			q.t.Errorf("%s: %s", q.prompt, body)
		}
	}
}

// messages are parts of the sidecar's messages, by their codes.
var messages = map[string]string{"queue_full": "too many requests wait", "queue_timeout": "as long as the request could wait"}

// decode reads the frames of any stream.
func decode(t testing.TB, body string) (all []strict.Event) {
	t.Helper()
	for body != "" {
		raw, rest, ok := strings.Cut(body, "\n\n")
		if !ok {
			t.Errorf("the stream ends in an open frame: %q", harness.Clip(body))
			return all
		}
		body = rest
		e, err := strict.Split(raw + "\n\n")
		if err == nil && e.Data != "" && e.Data != "[DONE]" && !json.Valid([]byte(e.Data)) {
			err = fmt.Errorf("no JSON")
		}
		if err != nil {
			t.Errorf("%v in frame %q", err, harness.Clip(raw))
			continue
		}
		all = append(all, e)
	}
	return all
}

// runID returns the id of the run that it has begun.
func (q *pending) runID() string {
	<-q.done
	var begun struct {
		ID string `json:"run_id"`
	}
	json.Unmarshal(q.body.Bytes(), &begun)
	return begun.ID
}

// refused wants an error of OpenAI's kind, before the header or after it.
func (q *pending) refused(k kind, code string) {
	q.t.Helper()
	status, body := q.ends()
	if status == http.StatusTooManyRequests {
		var got struct{ Error strict.APIError }
		err := json.Unmarshal([]byte(body), &got)
		if e := got.Error; err != nil || e.Code != code || e.Type != "rate_limit_error" || e.Param != nil || e.Message == "" || strings.Contains(body, "127.0.0.1") {
			q.t.Errorf("%s: %s", q.prompt, body)
		}
		if after, err := strconv.Atoi(q.reply.Header.Get("Retry-After")); err != nil || after < 1 || after > 600 {
			q.t.Errorf("%s: Retry-After %q", q.prompt, q.reply.Header.Get("Retry-After"))
		}
		return
	}
	if status != http.StatusOK || !k.stream {
		q.t.Errorf("%s: %d %s", q.prompt, status, harness.Clip(body))
		return
	}
	switch k {
	case chat:
		strict.Decode(q.t, body).CheckError(q.t, code)
	default:
		frames := decode(q.t, body)
		last := ""
		for _, f := range frames[max(0, len(frames)-2):] {
			last += f.Raw
		}
		want := map[kind]string{responses: "response.failed", session: "event: error"}[k]
		// Their errors have codes of their own kind, or none: the message says what it is.
		if !strings.Contains(last, messages[code]) || !strings.Contains(last, want) || k == responses && !strings.Contains(last, "rate_limit_exceeded") {
			q.t.Errorf("%s: ends in %s", q.prompt, last)
		}
	}
}
