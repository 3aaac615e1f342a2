package queuecaddy_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/caddytest"
	"github.com/hermes-sidecar/hermes-sidecar/internal/hermesapp"
)

// patience is how long a test waits for what has to come.
const patience = 30 * time.Second

// agent is a Hermes that works on each request until the test ends it.
type agent struct {
	t       *testing.T
	address string
	arrived chan *work
}

// work is a request that has come to an agent.
type work struct {
	name string // its header Name
	goOn chan struct{}
}

func newAgent(t *testing.T) *agent {
	a := &agent{t: t, arrived: make(chan *work, 100)}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		stream := strings.Contains(string(body), `"stream":true`)
		if stream {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, chunk(`{"role":"assistant","content":"hi"}`, "null"))
			_ = http.NewResponseController(w).Flush()
		}
		n := &work{r.Header.Get("Name"), make(chan struct{})}
		a.arrived <- n
		select {
		case <-n.goOn:
		case <-r.Context().Done():
			return
		}
		if stream {
			_, _ = io.WriteString(w, chunk("{}", `"stop"`)+"data: [DONE]\n\n")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"chatcmpl-1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`)
	}))
	t.Cleanup(s.Close)
	t.Cleanup(s.CloseClientConnections)
	a.address = strings.TrimPrefix(s.URL, "http://")
	return a
}

// chunk returns a chunk of a stream.
func chunk(delta, finish string) string {
	return `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + `}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}` + "\n\n"
}

// next returns the request that comes next.
func (a *agent) next(name string) *work {
	a.t.Helper()
	select {
	case n := <-a.arrived:
		if n.name != name {
			a.t.Fatalf("%s came, want %s", n.name, name)
		}
		return n
	case <-time.After(patience):
		a.t.Fatalf("%s did not come", name)
		return nil
	}
}

// end lets the agent answer.
func (n *work) end() { close(n.goOn) }

// none reports that a request has come.
func (a *agent) none() {
	a.t.Helper()
	select {
	case n := <-a.arrived:
		a.t.Fatalf("%s came", n.name)
	default:
	}
}

// site is a Caddy with one server.
type site struct {
	*caddytest.Site
	t      *testing.T
	access string // a file
}

// What is around the directives of a site.
const (
	global = "auto_https off\ngrace_period 1ms\nmetrics\nlog default {\n output file LOG\n}"
	around = "log {\n output file LOG.access\n}\nmetrics /metrics\nhermes_streams /streams\n"
)

// newSite starts Caddy with a site that has these directives.
func newSite(t *testing.T, directives string) *site {
	t.Helper()
	s := caddytest.NewSite(t, global, around+directives)
	return &site{s, t, s.Log + ".access"}
}

// load replaces the configuration.
func (s *site) load(directives string) {
	s.t.Helper()
	s.Load(global, around+directives)
}

// reply is what a client has been sent, in the end.
type reply struct {
	status int
	header http.Header
	body   string
	err    error
}

// ask sends a request for a chat with the name; header are names and values. leave makes the client leave.
func (s *site) ask(name string, header ...string) (got <-chan reply, leave func()) {
	return s.post("/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}]}`, append(header, "Name", name)...)
}

func (s *site) post(path, body string, header ...string) (<-chan reply, func()) {
	s.t.Helper()
	ctx, leave := context.WithCancel(s.t.Context())
	header = append(header, "Content-Type", "application/json")
	got := make(chan reply, 1)
	go func() {
		defer leave()
		var a reply
		resp, err := s.Send(ctx, http.MethodPost, path, body, header...)
		if a.err = err; err == nil {
			b, err := io.ReadAll(resp.Body)
			a = reply{resp.StatusCode, resp.Header, string(b), err}
		}
		got <- a
	}()
	return got, leave
}

// want waits for the reply, and wants its status and words in it.
func (s *site) want(got <-chan reply, status int, words ...string) reply {
	s.t.Helper()
	select {
	case a := <-got:
		if a.err != nil || a.status != status {
			s.t.Fatalf("%v, %d %s, want %d", a.err, a.status, a.body, status)
		}
		for _, word := range words {
			if !strings.Contains(a.body, word) {
				s.t.Errorf("%q is not in %s", word, a.body)
			}
		}
		return a
	case <-time.After(patience):
		s.t.Fatal("no reply")
		return reply{}
	}
}

// get returns what the site answers to a GET.
func (s *site) get(path string) string {
	s.t.Helper()
	resp, err := s.Send(s.t.Context(), http.MethodGet, path, "")
	if err != nil {
		s.t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		s.t.Fatal(err, resp.StatusCode)
	}
	return string(b)
}

// waiting waits until n requests wait.
func (s *site) waiting(n int) {
	s.t.Helper()
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		got := hermesapp.OfProcess().Lines.Stats().Waiting
		if got == n {
			return
		}
		if time.Since(begun) > patience {
			s.t.Fatalf("%d wait, want %d", got, n)
		}
	}
}

// metrics returns those of the queue.
func (s *site) metrics() map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(s.get("/metrics")) {
		if rest, ok := strings.CutPrefix(line, "caddy_hermes_queue_"); ok {
			name, value, _ := strings.Cut(strings.TrimSpace(rest), " ")
			all[name] = value
		}
	}
	return all
}

// lines waits until a log has n lines that are wanted, and returns them, decoded.
func (s *site) lines(file string, n int, wanted func(line map[string]any) bool) []map[string]any {
	s.t.Helper()
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		text, err := os.ReadFile(file)
		if err != nil && !os.IsNotExist(err) {
			s.t.Fatal(err)
		}
		var all []map[string]any
		for line := range strings.Lines(string(text)) {
			var l map[string]any
			if err := json.Unmarshal([]byte(line), &l); err == nil && wanted(l) { // or it is not whole
				all = append(all, l)
			}
		}
		if len(all) >= n {
			return all
		}
		if time.Since(begun) > patience {
			s.t.Fatalf("%d lines, want %d in\n%s", len(all), n, text)
		}
	}
}

// says returns what wants lines with the message.
func says(message string) func(map[string]any) bool {
	return func(line map[string]any) bool { return line["msg"] == message }
}

// isPost wants the lines of POSTs.
func isPost(line map[string]any) bool {
	return line["request"].(map[string]any)["method"] == http.MethodPost
}
