package clients

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
)

// TestRealHermes runs the newest Hermes of PyPI with a scripted model, and shows what it
// sends to openai-python, with the sidecar in front and without. It is run by hand
// (.ci/against-hermes). docs/hermes.md says how, and what came of it; -update writes that.
func TestRealHermes(t *testing.T) {
	program, version := installHermes(t)
	scripts := map[string][]modelTurn{}
	for _, s := range slices.Concat(hermesScenes, leftScenes, []hermesScene{killedInText, killedInTool, dangerous, examinedByDoctor}) {
		scripts[s.prompt()] = s.turns
	}
	h := &hermesLab{t: t, model: newScriptedModel(t, scripts), driver: startPython(t)}
	h.gateway = newGateway(t, program, h.model.up.Addr)
	front := sidecar.Site{Listen: harness.FreePort(t), Upstream: h.listen}
	sidecar.Run(t, t.TempDir(), sidecar.Config{Sites: []sidecar.Site{front}})
	h.bare, h.mended = "http://"+h.listen, "http://"+front.Listen

	for _, s := range hermesScenes {
		t.Run(s.name, func(t *testing.T) { h.chat(t, s) })
		h.model.needsTools(t)
	}
	if !h.states {
		h.cannot(t, "`hermes.status`: it does not tell that it asks its provider again")
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
	if s.ends == asHermesSays {
		s.text = bare.wire.Content
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
	k.line(s.name, sayBare(judge(bare.client, want), bare), told)
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
	// What Hermes had not sent yet when it was killed, nobody sees.
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

// sayBare is a cell of the report: what openai-python makes of Hermes alone.
func sayBare(o outcome, bare sight) string {
	if strings.Contains(bare.raw, providerKey) {
		return o.cell + ", with the provider's key"
	}
	return o.cell
}
