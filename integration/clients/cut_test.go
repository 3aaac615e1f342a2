package clients

import (
	"bytes"
	"context"

	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/browser"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"

	"github.com/chromedp/chromedp"
)

// TestCutConnections cuts the connection of clients that people have, with hermes_resume in
// the site. Whether the program sees the whole answer, and how often the agent ran, is a
// table of docs/clients.md, in which there is a row for each way to use a client.
func TestCutConnections(t *testing.T) {
	shop := newWorkshop(t)
	up := newCutUpstream(t)
	base, _ := sidecar.ServeCaddyfile(t, cutSite("", up.server.Addr))
	rows := map[string]string{}
	drivers, house := map[string]*driver{}, new(cutHouse)
	for _, w := range cutWays {
		t.Run(w.name(), func(t *testing.T) {
			harness.Program(t, "HERMES_REDIS", "valkey-server", "redis-server")
			c := &cutBench{up: up, base: base, way: w, house: house}
			w.start(t, shop, drivers, c)
			rows[w.name()] = c.row(t)
		})
	}
	t.Run("docs", func(t *testing.T) { checkCutDoc(t, rows) })
}

// A place is where the first connection of a program ends.
type place struct {
	title  string
	behind map[string]*regexp.Regexp // of what the client is sent, by kind of stream; nil if it is sent nothing, not even a header
	late   bool                      // it comes back after the end of the run
	killed bool                      // the sidecar is killed, and started again before the client comes back
}

// The kinds of streams, which are the paths of their recordings.
const (
	kindChat     = "/v1/chat/completions"
	kindWhole    = "a chat that is not streamed"
	kindResponse = "/v1/responses"
	kindRun      = "/v1/runs/run_1/events"
)

// inText, inTool and atEnd are where the client has a part of the answer. inText is within an
// event.
var (
	inText = map[string]*regexp.Regexp{
		kindChat:     regexp.MustCompile(`"Let me`),
		kindResponse: regexp.MustCompile(`output_text\.delta(?s:.*?)"delta": ?"Let me`),
		kindRun:      regexp.MustCompile(`"delta": ?"Let me`),
		kindWhole:    regexp.MustCompile(`Let me`),
	}
	inTool = map[string]*regexp.Regexp{
		kindChat:     regexp.MustCompile(`"running"(?s:.*?)\n\n`),
		kindResponse: regexp.MustCompile(`"function_call"(?s:.*?)\n\n`),
		kindRun:      regexp.MustCompile(`"tool\.started"(?s:.*?)\n\n`),
	}
	atEnd = map[string]*regexp.Regexp{
		kindChat:     regexp.MustCompile(`\[DONE\]\n\n`),
		kindResponse: regexp.MustCompile(`data: .*"response\.completed"(?s:.*?)\n\n`),
		kindRun:      regexp.MustCompile(`"run\.completed"(?s:.*?)\n\n`),
	}
)

var places = []place{
	{title: "before the header"},
	{title: "in the text", behind: inText},
	{title: "in a tool", behind: inTool},
	{title: "after the end", behind: atEnd},
	{title: "before the header, and back after the end", late: true},
	{title: "the sidecar is killed in the text", behind: inText, killed: true},
	{title: "the sidecar is killed after the end", late: true, killed: true},
}

// in reports whether a stream of the kind has the place.
func (p place) in(kind string) bool { return p.behind == nil || p.behind[kind] != nil }

// A way is a client, and how a program uses it.
type way struct {
	client, how string
	driver      string         // of realClients
	kind        string         // of the stream
	send        map[string]any // members of the case
	resume      string         // subdirectives of hermes_resume
	beside      bool           // a sidecar beside the client comes back for it: hermes-proxy --resume
	start       func(t *testing.T, shop *workshop, drivers map[string]*driver, c *cutBench)
}

// name returns the first cells of the way's row.
func (w *way) name() string { return w.client + ", " + w.how }

// The ways to use a client.
const (
	asItIs        = "streamed"
	unstreamed    = "not streamed"
	withKey       = "with a key of the program's, which asks again"
	responses     = "`responses`, continued by `retrieve`"
	configuredKey = "with `key` of the configuration; the user presses *Regenerate*"
	behindProxy   = "streamed, beside it `hermes-proxy --resume`"
)

// key makes the driver send an Idempotency-Key, and ask again after an error.
var key = map[string]any{"key": "the-question-0123456789"}

var cutWays = []*way{
	{client: "openai-go", how: asItIs, kind: kindChat, start: startReal},
	{client: "openai-go", how: unstreamed, kind: kindWhole, send: map[string]any{"whole": true}, start: startReal},
	{client: "openai-go", how: withKey, kind: kindChat, send: key, start: startReal},
	{client: "openai-go", how: behindProxy, kind: kindChat, beside: true, start: startReal},
	{client: "openai-python", how: asItIs, kind: kindChat, start: startReal},
	{client: "openai-python", how: unstreamed, kind: kindWhole, send: map[string]any{"whole": true}, start: startReal},
	{client: "openai-python", how: responses, kind: kindResponse, send: map[string]any{"responses": true}, start: startReal},
	{client: "openai-python", how: withKey, kind: kindChat, send: key, start: startReal},
	{client: "openai-python", how: behindProxy, kind: kindChat, beside: true, start: startReal},
	{client: "openai-node", how: asItIs, kind: kindChat, start: startReal},
	{client: "openai-node", how: unstreamed, kind: kindWhole, send: map[string]any{"whole": true}, start: startReal},
	{client: "openai-node", how: responses, kind: kindResponse, send: map[string]any{"responses": true}, start: startReal},
	{client: "openai-node", how: withKey, kind: kindChat, send: key, start: startReal},
	{client: "LangChain", how: asItIs, kind: kindChat, start: startReal},
	{client: "LangChain", how: unstreamed, kind: kindWhole, send: map[string]any{"whole": true}, start: startReal},
	{client: "LangChain", how: withKey, kind: kindChat, send: key, start: startReal},
	{client: "LangChain.js", how: asItIs, kind: kindChat, start: startReal},
	{client: "LangChain.js", how: withKey, kind: kindChat, send: key, start: startReal},
	{client: "AI SDK", how: asItIs, kind: kindChat, start: startReal},
	{client: "AI SDK", how: withKey, kind: kindChat, send: key, start: startReal},
	{client: "AI SDK", how: behindProxy, kind: kindChat, beside: true, start: startReal},
	{client: "LibreChat's engine", how: asItIs, kind: kindChat, start: startLibreChat},
	{client: "LibreChat's engine", how: configuredKey, kind: kindChat, start: startLibreChat, resume: "key {http.request.header.X-Conversation-Id} body",
		send: map[string]any{"headers": map[string]string{"X-Conversation-Id": "a conversation"}, "again": true}},
	{client: "Open WebUI", how: asItIs, kind: kindChat, start: startCutOpenWebUI},
	{client: "Open WebUI", how: configuredKey, kind: kindChat, start: startCutOpenWebUI, resume: "key {http.request.header.X-Chat-Id} body"},
	{client: "Open WebUI", how: behindProxy, kind: kindChat, beside: true, start: startCutOpenWebUI},
	{client: "EventSource", how: "on a run", kind: kindRun, start: startEventSource},
}

// startReal lets a driver of realClients ask.
func startReal(t *testing.T, shop *workshop, drivers map[string]*driver, c *cutBench) {
	real := realClients[slices.IndexFunc(realClients, func(r realClient) bool { return r.name == c.way.client })]
	d := drivers[real.name]
	if d == nil {
		cmd, err := shop.command(shop.t, real)
		if err != nil {
			harness.Missing(t, clientsVariable, err.Error())
		}
		d = startDriver(shop.t, cmd) // it stays for other ways
		d.ready()
		drivers[real.name] = d
	}
	c.drive(d)
}

// startLibreChat lets LibreChat's engine ask.
func startLibreChat(t *testing.T, shop *workshop, drivers map[string]*driver, c *cutBench) {
	d := drivers[c.way.client]
	if d == nil {
		d = startDriver(shop.t, exec.Command("node", besideModules(shop.t, libreChat(t, shop), "librechat/librechat.mjs")))
		d.ready()
		drivers[c.way.client] = d
	}
	c.drive(d)
}

// drive lets a driver ask.
func (c *cutBench) drive(d *driver) {
	c.version = d.version
	c.ask = func(base, prompt string) seen {
		send := map[string]any{"base_url": base + "/v1", "prompt": prompt}
		for name, value := range c.way.send {
			send[name] = value
		}
		return d.send(send, harness.Patience)
	}
}

// startEventSource has a page start a run, and read its events with a real EventSource.
func startEventSource(t *testing.T, _ *workshop, _ map[string]*driver, c *cutBench) {
	tab := browser.New(t, 800, 600)
	c.version, c.oneByOne = "of Chromium", true
	c.ask = func(base, prompt string) seen {
		tab.Do(chromedp.Navigate(base + "/run.html"))
		browser.Eval[any](tab, fmt.Sprintf("start(%q)", prompt))
		tab.Wait("finished || failure")
		s := seen{Text: browser.Eval[string](tab, "text")}
		if failure := browser.Eval[string](tab, "failure"); failure != "" {
			s.Error = &seenFail{How: "event", Message: failure}
		}
		return s
	}
}

// startCutOpenWebUI lets a user ask in a real Open WebUI. All ways have one process of it in
// common, and a front that leads each question to the journey that is tried.
func startCutOpenWebUI(t *testing.T, shop *workshop, _ map[string]*driver, c *cutBench) {
	h := c.house
	if h.webui == nil {
		program := openWebUI(t)
		front := harness.Listen(shop.t, func(over context.Context, down net.Conn) {
			at := h.at.Load()
			up, err := net.Dial("tcp", strings.TrimPrefix(at.base, "http://"))
			if err != nil {
				return
			}
			defer up.Close()
			defer context.AfterFunc(over, func() { up.Close() })()
			defer context.AfterFunc(at.Context, func() { up.Close() })()
			go func() {
				_, _ = io.Copy(up, down)
				up.Close()
			}()
			_, _ = io.Copy(down, up)
		})
		h.lead("http://" + harness.FreePort(shop.t))
		const configs = `{"0": {"enable": true, "headers": {"X-Chat-Id": "{{CHAT_ID}}"}}}`
		h.webui = newWebUI(shop.t, startOpenWebUI(shop.t, program, []string{"http://" + front.Addr + "/v1"}, "OPENAI_API_CONFIGS="+configs,
			"ENABLE_TITLE_GENERATION=false", "ENABLE_TAGS_GENERATION=false", "ENABLE_FOLLOW_UP_GENERATION=false"))
		if m := regexp.MustCompile(`(?m)^open-webui==(\S+)$`).FindStringSubmatch(harness.ReadFile(shop.t, "openwebui_requirements.txt")); m != nil {
			h.version = m[1]
		}
	}
	h.T = t
	c.version, c.oneByOne = h.version, true
	c.ask = func(base, prompt string) seen {
		h.lead(base)
		h.open("hermes-agent")
		h.ask(prompt)
		m, _ := h.ended()
		for tries := 4; c.way.how == configuredKey && strings.TrimSpace(m.Content) != c.up.texts[kindChat] && tries > 0; tries-- {
			h.before = m.ID
			browser.Eval[any](h.Tab, `[...document.getElementsByClassName("regenerate-response-button")].at(-1).click()`)
			m, _ = h.ended()
		}
		s := seen{Text: m.Content}
		if m.Error != nil {
			s.Error = &seenFail{How: "message", Message: string(m.Error.Content)}
		}
		return s
	}
}

// A cutHouse is the Open WebUI of all ways.
type cutHouse struct {
	*webui  // nil before it is started
	version string
	at      atomic.Pointer[leading]
}

// leading is where the front leads, until the context ends.
type leading struct {
	context.Context
	end  func()
	base string
}

// lead lets the front lead to a base URL from now on. Open WebUI keeps connections, which end.
func (h *cutHouse) lead(base string) {
	to := &leading{base: base}
	to.Context, to.end = context.WithCancel(context.Background())
	if before := h.at.Swap(to); before != nil {
		before.end()
	}
}

// A cutBench tries one way at all places.
type cutBench struct {
	up       *cutUpstream
	base     string // of a sidecar with hermes_resume
	way      *way
	version  string
	ask      func(base, prompt string) seen
	house    *cutHouse
	oneByOne bool // it cannot be asked several questions at once
}

// row returns the cells of the way: what became of it at each place.
func (c *cutBench) row(t *testing.T) string {
	t.Helper()
	// What is not cut has to be as it is without hermes_resume.
	if got := c.run(t, place{title: "nowhere", behind: map[string]*regexp.Regexp{c.way.kind: regexp.MustCompile("there is none")}}); got != "whole" {
		t.Fatalf("an answer that is not cut: %s", got)
	}
	cells := make([]string, len(places))
	var all sync.WaitGroup
	for i, p := range places {
		if !p.in(c.way.kind) {
			cells[i] = "–"
			continue
		}
		try := func() { cells[i] = c.run(t, p) }
		if c.oneByOne {
			try()
		} else {
			all.Go(try)
		}
	}
	all.Wait()
	return row(append([]string{c.way.client, c.version, c.way.how}, cells...)...)
}

// soonBack is how long after a cut a client may come back so that its run is surely there: the
// run of an SDK goes on for ten seconds.
const soonBack = 5 * time.Second

// run cuts one answer, and returns what became of it. If the machine is so busy that the
// client comes back too late, it is tried again.
func (c *cutBench) run(t *testing.T, p place) (cell string) {
	t.Helper()
	for range 3 {
		j := c.newJourney(t, p)
		got := c.ask(j.url, j.prompt)
		j.giveUp()
		cell = j.judge(t, got)
		if away := j.away.Load(); away == nil || *away < soonBack {
			break
		}
	}
	return cell
}

// judge returns the cell of what a program has seen.
func (j *journey) judge(t testing.TB, got seen) string {
	asked := j.asked.Load()
	t.Logf("%s: %q, finish %q, error %+v, %d requests, asked %d times", j.at.title, got.Text, got.Finish, got.Error, j.tries.Load(), asked)
	cell, text := "part of it, without an error", strings.TrimSpace(got.Text)
	switch {
	case got.hung:
		cell = "hangs"
	case got.Error != nil && text == j.want:
		cell = "whole, and an error"
	case got.Error != nil:
		cell = "error"
	case text == j.want:
		cell = "whole"
	}
	if asked != 1 {
		cell += fmt.Sprintf(", %d runs", asked)
	}
	return cell
}

// A journey is one question, and the relay on the way to the sidecar that cuts the
// connection.
type journey struct {
	at     place
	kind   string
	prompt string
	want   string // the text of the answer
	url    string // for the client
	to     *url.URL
	kill   func() // kills the sidecar and starts it again
	stored func(what string)

	asked  atomic.Int64  // how often the agent ran
	reads  atomic.Int64  // how often the events of a run were asked for
	tries  atomic.Int64  // how often the client asked
	begun  chan struct{} // closed when the agent was asked
	cut    chan struct{} // closed when the connection is cut
	back   chan struct{} // closed when the client has come back, or given up
	over   chan struct{} // closed when the run is over
	giveUp func()        // closes back
	wentAt atomic.Pointer[time.Time]
	away   atomic.Pointer[time.Duration]
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
	n := j.count(r)
	if n == 2 {
		if at := j.wentAt.Load(); at != nil {
			d := time.Since(*at)
			j.away.Store(&d)
		}
		if j.at.late {
			<-j.over
		}
		if j.at.late && j.at.killed {
			j.stored("\nwhole\r")
			j.kill()
		}
		j.giveUp()
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	up := r.Clone(r.Context())
	up.URL.Scheme, up.URL.Host, up.RequestURI = j.to.Scheme, j.to.Host, ""
	up.Body, up.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	transport := &http.Transport{DisableCompression: true, DisableKeepAlives: true}
	if n == 1 && j.at.behind == nil {
		go func() {
			if res, err := transport.RoundTrip(up); err == nil {
				res.Body.Close()
			}
		}()
		<-j.begun
		j.cutNow()
	}
	res, err := transport.RoundTrip(up)
	if err != nil {
		panic(http.ErrAbortHandler) // as the sidecar does
	}
	defer res.Body.Close()
	for name, values := range res.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(res.StatusCode)
	out := flusher{w, http.NewResponseController(w)}
	if n == 1 && copyTo(out, res.Body, j.at.behind[j.kind]) {
		j.cutNow()
	}
	if _, err := io.Copy(out, res.Body); err != nil {
		panic(http.ErrAbortHandler)
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

// cutNow ends the connection to the client, and that to the sidecar.
func (j *journey) cutNow() {
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
	now := time.Now()
	j.wentAt.Store(&now)
	close(j.cut)
	panic(http.ErrAbortHandler)
}

// A cutUpstream is a Hermes that plays a recording for each question, and waits where its
// journey has a cut.
type cutUpstream struct {
	server   *upstream.Server
	asked    atomic.Int64
	journeys sync.Map // *journey, by number
	tapes    map[string]hermes.Recording
	texts    map[string]string // by kind of stream
}

func newCutUpstream(t *testing.T) *cutUpstream {
	t.Helper()
	const text = "Let me check.\n\nThere are 3 files."
	u := &cutUpstream{tapes: map[string]hermes.Recording{}, texts: map[string]string{}}
	for kind, name := range map[string]string{kindChat: "one_tool", kindResponse: "responses.one_tool", kindRun: "runs.one_tool"} {
		u.tapes[kind], u.texts[kind] = hermes.Recorded(t, modern+"/"+name), text
	}
	u.texts[kindWhole] = text
	u.server = upstream.New(t, u.play)
	return u
}

// numbered finds the number of a journey in a prompt, or in the id of a run.
var numbered = regexp.MustCompile(`cut-(\d+)-|/runs/run_0*(\d+)/`)

// ids are those of the recordings, which differ from question to question.
var ids = regexp.MustCompile(`(run_|resp_)[0-9a-f]{28,32}`)

func (u *cutUpstream) play(x *upstream.Exchange) {
	m := numbered.FindStringSubmatch(x.Req.URL.Path + string(x.Body))
	if m == nil && x.Req.Method == http.MethodGet { // Hermes ignores that a response is asked for as a stream
		upstream.AsJSON("200 OK", `{"id": "resp_1", "object": "response", "status": "in_progress", "output": []}`)(x)
		return
	}
	if m == nil {
		upstream.AsJSON("404 Not Found", `{"error": {"message": "no such question"}}`)(x)
		return
	}
	n := m[1] + m[2]
	found, _ := u.journeys.Load(n)
	j := found.(*journey)
	run := "run_" + fmt.Sprintf("%032s", n)
	switch path := x.Req.URL.Path; {
	case path == "/v1/runs":
		j.asked.Add(1)
		upstream.AsJSON("202 Accepted", fmt.Sprintf(`{"run_id": %q, "status": "started"}`, run))(x)
		return
	case j.kind == kindRun && j.reads.Add(1) > 1: // there is one queue
		upstream.AsJSON("404 Not Found", `{"error": {"message": "Run not found", "code": "run_not_found"}}`)(x)
		return
	}
	first := j.kind == kindRun || j.asked.Add(1) == 1
	if first {
		close(j.begun)
		defer close(j.over)
	}
	// holds reports whether the run goes on, after it has waited where the cut is.
	holds := func(at *regexp.Regexp, sent []byte) bool {
		if !first || at == nil && sent != nil || at != nil && !at.Match(sent) {
			return true
		}
		first = false
		if j.at.late {
			return x.Wait(j.cut)
		}
		return x.Wait(j.back)
	}
	at := j.at.behind[j.kind]
	if !holds(at, nil) {
		return
	}
	if j.kind == kindWhole {
		upstream.AsJSON("200 OK", fmt.Sprintf(`{"id": "chatcmpl-1", "object": "chat.completion", "created": 1795164827, "model": "hermes-agent",
	"choices": [{"index": 0, "message": {"role": "assistant", "content": %q}, "finish_reason": "stop"}],
	"usage": {"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17}}`, u.texts[kindWhole]))(x)
		return
	}
	tape := u.tapes[j.kind]
	x.Raw(tape.Header)
	var sent []byte
	for _, frame := range upstream.ByFrame.Cut(ids.ReplaceAll(tape.Body, []byte("${1}"+fmt.Sprintf("%032s", n)))) {
		x.Chunk(frame)
		if sent = append(sent, frame...); !holds(at, sent) {
			return
		}
	}
	x.End()
}

// cutSite returns the directives of a site with hermes_resume, which has the subdirectives.
func cutSite(resume, upstream string) string {
	return "hermes_resume {\n" + resume + "\n}\nhermes\nreverse_proxy " + upstream
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
	if !redis.Says("Ready to accept connections") {
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

// cutTable is the name of the table of cut connections.
const cutTable = "cut"

// checkCutDoc compares the table of the document with the rows, by the names of ways.
func checkCutDoc(t *testing.T, rows map[string]string) {
	t.Helper()
	titles := []string{"client", "version", "used"}
	for _, p := range places {
		titles = append(titles, p.title)
	}
	page := harness.ReadFile(t, clientsDoc)
	block := regexp.MustCompile(`(?s)(<!-- generated: ` + cutTable + ` -->\n)(.*?)(<!-- end -->)`).FindStringSubmatch(page)
	if block == nil {
		t.Fatalf("%s has no table of cut connections", clientsDoc)
	}
	want := head(titles...)
	for _, w := range cutWays {
		line := rows[w.name()]
		if line == "" { // it could not be tried
			line = oldRow(block[2], w)
		}
		if line == "" {
			t.Errorf("%s: it could not be tried, and %s has no row of it", w.name(), clientsDoc)
			continue
		}
		want = append(want, line)
	}
	if *updateDocs {
		harness.WriteFile(t, clientsDoc, []byte(strings.Replace(page, block[0], block[1]+strings.Join(want, "\n")+"\n"+block[3], 1)))
		return
	}
	compareTable(t, cutTable, strings.TrimSpace(block[2]), want, true)
}

// oldRow returns the row of a way that a table has, or "".
func oldRow(table string, w *way) string {
	for line := range strings.Lines(table) {
		if cells := strings.Split(strings.TrimSpace(line), " | "); len(cells) > 2 && cells[0] == "| "+w.client && cells[2] == w.how {
			return strings.TrimSpace(line)
		}
	}
	return ""
}
