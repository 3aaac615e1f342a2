package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// openWebUIVariable names the program open-webui of an installation, or is
// "install": then the version in openwebui_requirements.txt is installed, once,
// below the user's cache directory.
const openWebUIVariable = "HERMES_OPENWEBUI"

// openWebUI is the path of the program. Without the variable the test is
// skipped.
func openWebUI(t testing.TB) string {
	t.Helper()
	switch path := os.Getenv(openWebUIVariable); path {
	case "":
		t.Skipf("a real Open WebUI is tested when %s names its program, or is \"install\" (see docs/open-webui.md)", openWebUIVariable)
	case "install":
		return installOpenWebUI(t)
	default:
		return path
	}
	return ""
}

// installOpenWebUI makes a virtual environment of Python, unless it is there.
func installOpenWebUI(t testing.TB) string {
	t.Helper()
	const wanted = "openwebui_requirements.txt"
	list, err := os.ReadFile(wanted)
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^open-webui==(\S+)$`).FindSubmatch(list)
	cache, err := os.UserCacheDir()
	if err != nil || version == nil {
		t.Fatalf("no cache directory (%v), or no version in %s", err, wanted)
	}
	dir := filepath.Join(cache, "hermes-sidecar", "open-webui-"+string(version[1]))
	installed := filepath.Join(dir, "installed.txt")
	program := filepath.Join(dir, "bin", "open-webui")
	if have, err := os.ReadFile(installed); err == nil && bytes.Equal(have, list) {
		return program
	}
	begin := time.Now()
	for _, args := range [][]string{
		{python(t), "-m", "venv", "--clear", dir},
		{filepath.Join(dir, "bin", "pip"), "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:", "--no-deps", "-r", wanted},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	harness.WriteFile(t, installed, list)
	t.Logf("Open WebUI %s installed in %s in %s", version[1], dir, time.Since(begin).Round(time.Second))
	return program
}

// python is one of the versions that Open WebUI and Hermes run on.
func python(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"python3.12", "python3.11", "python3"} {
		if err := exec.Command(name, "-c", "import sys, venv; sys.exit(not (3, 11) <= sys.version_info < (3, 13))").Run(); err == nil {
			return name
		}
	}
	t.Fatal("there is no Python 3.11 or 3.12 with venv in the PATH")
	return ""
}

// startOpenWebUI runs the program on connections, an empty database and no
// network but loopback, and returns its URL.
func startOpenWebUI(t testing.TB, program string, connections []string, more ...string) string {
	t.Helper()
	home := t.TempDir()
	host, port, _ := strings.Cut(harness.FreePort(t), ":")
	cmd := exec.Command(program, "serve", "--host", host, "--port", port)
	cmd.Dir = home
	cmd.Env = append(sidecar.Environment(home),
		"DATA_DIR="+home, "WEBUI_SECRET_KEY=test", "WEBUI_AUTH=false", "CORS_ALLOW_ORIGIN=http://"+host+":"+port,
		"USE_SLIM_DOCKER=true", "OFFLINE_MODE=true", "HF_HUB_OFFLINE=1", "ENABLE_VERSION_UPDATE_CHECK=false", "ENABLE_OLLAMA_API=false",
		"OPENAI_API_BASE_URLS="+strings.Join(connections, ";"), "OPENAI_API_KEYS="+strings.Repeat("key;", len(connections)-1)+"key")
	cmd.Env = append(cmd.Env, more...)
	p := harness.Start(t, cmd)
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.Exited:
		case <-time.After(harness.Patience):
		}
	})
	base := "http://" + host + ":" + port
	serves(t, p, base+"/health")
	return base
}

// serves waits until a program answers a GET with status 200.
func serves(t testing.TB, p *harness.Process, url string) {
	t.Helper()
	harness.Until(t, url+" answers", func() bool {
		select {
		case <-p.Exited:
			t.Fatalf("it has ended:\n%s", p.Log)
		default:
		}
		res, err := http.Get(url)
		if err == nil {
			res.Body.Close()
		}
		return err == nil && res.StatusCode == http.StatusOK
	})
}

// A connection is a line of Open WebUI's "Admin Settings, Connections": a
// Hermes with a model of that name, and the sidecar in front of it.
type connection struct {
	model   string
	options sidecar.Options // nil for none: straight to Hermes
	queue   sidecar.Options // of hermes_queue, nil for none
	headers string          // that Open WebUI adds, as JSON
}

// A house is a real Open WebUI with a browser in front of it, and connections
// after.
type house struct {
	*webui
	agents map[string]*agent
	sites  map[string]string // URLs of the sidecars, by model
}

func newHouse(t *testing.T, connections ...connection) *house {
	program := openWebUI(t)
	h := &house{agents: map[string]*agent{}, sites: map[string]string{}}
	var c sidecar.Config
	var urls []string
	extra := map[string]any{}
	for i, con := range connections {
		a := newAgent(t, con.model)
		h.agents[con.model] = a
		addr := a.up.Addr
		if con.options != nil {
			addr = harness.FreePort(t)
			c.Sites = append(c.Sites, sidecar.Site{Listen: addr, Upstream: a.up.Addr, Options: con.options, Queue: con.queue})
		}
		h.sites[con.model] = "http://" + addr
		urls = append(urls, "http://"+addr+"/v1")
		if con.headers != "" {
			extra[fmt.Sprint(i)] = map[string]any{"enable": true, "headers": json.RawMessage(con.headers)}
		}
	}
	sidecar.Run(t, t.TempDir(), c)
	configs, err := json.Marshal(extra)
	if err != nil {
		t.Fatal(err)
	}
	h.webui = newWebUI(t, startOpenWebUI(t, program, urls, "OPENAI_API_CONFIGS="+string(configs), "ENABLE_DIRECT_CONNECTIONS=true"))
	return h
}

// scene is a subtest. The house stays, and so does its browser.
func (h *house) scene(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) {
		outside := h.T
		defer func() {
			if t.Failed() {
				h.Picture("failed " + strings.ReplaceAll(t.Name(), "/", " "))
			}
			h.T = outside
		}()
		h.T = t
		f(t)
	})
}

// move points the connection of a model at a sidecar, as an administrator does,
// and opens its page again.
func (h *house) move(model string, o sidecar.Options) {
	h.T.Helper()
	base, _ := sidecar.Serve(h.T, h.agents[model].up, o)
	h.configure("/openai/config", func(c map[string]any) {
		urls := c["OPENAI_API_BASE_URLS"].([]any)
		for i, u := range urls {
			if u == "http://"+h.agents[model].up.Addr+"/v1" {
				urls[i] = base + "/v1"
			}
		}
	})
}

// configure changes a part of Open WebUI's settings.
func (h *house) configure(path string, change func(c map[string]any)) {
	h.T.Helper()
	var c map[string]any
	if err := json.Unmarshal([]byte(h.api("GET", path, "")), &c); err != nil {
		h.T.Fatal(err)
	}
	change(c)
	want, err := json.Marshal(c)
	if err != nil {
		h.T.Fatal(err)
	}
	h.api("POST", path+"/update", string(want))
	var have map[string]any
	if err := json.Unmarshal([]byte(h.api("GET", path, "")), &have); err != nil || !reflect.DeepEqual(c, have) {
		h.T.Fatalf("the settings are %v, want %v", have, c)
	}
}

// derive makes a model of another one's, with settings as JSON.
func (h *house) derive(model, from, meta, params string) {
	h.T.Helper()
	body := fmt.Sprintf(`{"id": %q, "base_model_id": %q, "name": %q, "meta": %s, "params": %s}`, model, from, model, meta, params)
	if got := h.api("POST", "/api/v1/models/create", body); !strings.Contains(got, `"base_model_id":`) {
		h.T.Fatalf("no model is made: %s", got)
	}
}

// An agent is a Hermes that offers one model and answers with recordings. The
// last message says which, and what becomes of the tools in it:
//
//	play g0-v0.8.0/one_tool    a tool ends at once
//	hold g0-v0.8.0/one_tool    a tool ends, or is approved, when the test says so
//	slow g0-v0.8.0/one_tool    a tool takes a while
//	kill g0-v0.8.0/one_tool    as hold, and the agent is killed then
//
// What is asked without a stream (titles, tags) gets an answer without one.
type agent struct {
	t     testing.TB
	model string
	up    *upstream.Server
	tapes map[string]hermes.Recording
	next  chan struct{} // ends a tool, or the agent
	left  chan struct{} // gets a value if the client has gone while a tool ran

	mu     sync.Mutex
	chats  []turn
	asides int // requests for titles and the like
}

// A turn is a request for a streamed answer.
type turn struct {
	header   http.Header
	body     []byte
	question string // of the user
	asides   int    // requests for titles and the like before it
	Stream   bool
	Messages []struct{ Role, Content string }
	Tools    []json.RawMessage // Open WebUI's own
}

// said is what the assistant has said before, according to the request.
func (q turn) said() []string {
	var all []string
	for _, m := range q.Messages {
		if m.Role == "assistant" {
			all = append(all, m.Content)
		}
	}
	return all
}

func newAgent(t testing.TB, model string) *agent {
	t.Helper()
	a := &agent{t: t, model: model, tapes: map[string]hermes.Recording{}, next: make(chan struct{}), left: make(chan struct{}, 1)}
	for _, r := range hermes.Recordings(t, hermes.Chats) {
		a.tapes[r.String()] = r
	}
	a.tapes[approval] = approvalTape(t)
	a.up = upstream.New(t, a.play)
	return a
}

func (a *agent) play(x *upstream.Exchange) {
	if x.Req.Method == http.MethodOptions {
		x.Header("200 OK", "Access-Control-Allow-Origin: *", "Access-Control-Allow-Headers: authorization,content-type", "Content-Length: 0", "", "")
		return
	}
	if strings.HasSuffix(x.Req.URL.Path, "/models") {
		list := fmt.Sprintf(`{"object": "list", "data": [{"id": %q, "object": "model", "created": 1795165766, "owned_by": "hermes"}]}`, a.model)
		x.Header("200 OK", "Content-Type: application/json", fmt.Sprintf("Content-Length: %d", len(list)), "Access-Control-Allow-Origin: *", "", list)
		return
	}
	if strings.Contains(x.Req.URL.Path, "/api/sessions/") { // it tells nothing of its tools
		upstream.AsJSON("404 Not Found", `{"error": {"message": "nothing is here"}}`)(x)
		return
	}
	q := turn{header: x.Req.Header, body: x.Body}
	if err := json.Unmarshal(x.Body, &q); err != nil || len(q.Messages) == 0 {
		a.t.Errorf("a request without messages: %v: %s", err, harness.Clip(string(x.Body)))
		upstream.AsJSON("400 Bad Request", `{"error": {"message": "no messages"}}`)(x)
		return
	}
	for _, m := range q.Messages { // the last may be an answer that is to go on
		if m.Role == "user" { // which may begin with a record of what tools did
			q.question = m.Content[strings.LastIndex(m.Content, "\n")+1:]
		}
	}
	how, name, _ := strings.Cut(q.question, " ")
	if _, what, ok := strings.Cut(name, "/nonstream."); ok && how == "play" {
		a.playWhole(x, what)
		return
	}
	if !q.Stream {
		a.mu.Lock()
		a.asides++
		a.mu.Unlock()
		upstream.AsJSON("200 OK", suggestions)(x)
		return
	}
	r, ok := a.tapes[name]
	if !ok {
		a.t.Errorf("no recording %q", name)
		upstream.AsJSON("404 Not Found", `{"error": {"message": "no such recording"}}`)(x)
		return
	}
	a.mu.Lock()
	q.asides = a.asides
	a.chats = append(a.chats, q)
	a.mu.Unlock()
	if x.Req.Header.Get("Origin") != "" {
		r.Header = strings.Replace(r.Header, "\r\n", "\r\nAccess-Control-Allow-Origin: *\r\n", 1)
	}
	x.Raw(r.Header)
	for _, frame := range upstream.ByFrame(r.Body) {
		x.Chunk(frame)
		if how == "play" || !startsTool(string(frame)) && !strings.HasPrefix(string(frame), "event: approval.request") {
			continue
		}
		if how == "slow" {
			x.Pause(time.Second)
			continue
		}
		if !x.Wait(a.next) {
			a.left <- struct{}{}
			return
		}
		if how == "kill" {
			x.Reset()
			return
		}
	}
	x.End()
}

// playWhole answers with a recording of what Hermes 0.8 says without a stream.
func (a *agent) playWhole(x *upstream.Exchange, scenario string) {
	b, err := os.ReadFile(filepath.Join(hermes.Captures, "g0-v0.8.0", "nonstream."+scenario+".http"))
	if err != nil {
		a.t.Error(err)
		x.Fin()
		return
	}
	x.Raw(string(b))
}

// startsTool reports whether a frame is a marker or the running event of a tool.
func startsTool(frame string) bool {
	return strings.Contains(frame, "\"content\": \"\\n`") || strings.HasPrefix(frame, "event: hermes.tool.progress") && !strings.Contains(frame, `"completed"`)
}

// proceed lets the tool that runs end.
func (a *agent) proceed() {
	a.t.Helper()
	select {
	case a.next <- struct{}{}:
	case <-time.After(harness.Patience):
		a.t.Fatal("no tool runs that could end")
	}
}

// abandoned waits until the client has left while a tool ran.
func (a *agent) abandoned() {
	a.t.Helper()
	select {
	case <-a.left:
	case <-time.After(harness.Patience / 2):
		a.t.Error("the client has not left")
		a.proceed()
	}
}

// askedAside is how many titles and the like have been asked for.
func (a *agent) askedAside() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asides
}

// last is the latest request for a streamed answer.
func (a *agent) last() turn {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.chats) == 0 {
		a.t.Fatalf("%s has not been asked", a.model)
	}
	return a.chats[len(a.chats)-1]
}

// count is how many streamed answers have been asked for.
func (a *agent) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.chats)
}

// awaitCount waits until so many streamed answers have been asked for.
func (a *agent) awaitCount(n int) {
	a.t.Helper()
	harness.Until(a.t, fmt.Sprintf("%s has been asked %d times", a.model, n), func() bool { return a.count() >= n })
}

// asked is how often a question of the user has been asked.
func (a *agent) asked(question string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for _, q := range a.chats {
		if q.question == question {
			n++
		}
	}
	return n
}

// unstreamed answers each of Open WebUI's own questions: for a title, for tags
// and for what the user may say next.
const suggestions = `{"id": "chatcmpl-1", "object": "chat.completion", "created": 1795164827, "model": "hermes-agent",
	"choices": [{"index": 0, "message": {"role": "assistant", "content": "{\"title\": \"Files and tests\", \"tags\": [\"General\"], \"follow_ups\": []}"}, "finish_reason": "stop"}],
	"usage": {"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17}}`
