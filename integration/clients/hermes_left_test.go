package clients

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
)

// The scenes in which the client leaves while a tool runs, or has it ended.
var (
	leftAlone      = tenSeconds("left, Hermes alone")
	leftWithoutKey = tenSeconds("left without a key")
	leftWithKey    = tenSeconds("left with a key")
	deleted        = tenSeconds("deleted")

	leftScenes = []hermesScene{leftAlone, leftWithoutKey, leftWithKey, deleted}
)

// tenSeconds is a scene with a tool that takes ten seconds, and adds a line to a file then.
// Hermes notices that a client has left when it writes next, which is at the end of the
// tool. The second tool gives it time to stop.
func tenSeconds(name string) hermesScene {
	s := hermesScene{name: name, text: "It takes a while.\n\nIt is done.", tools: []string{"terminal", "terminal"}}
	s.turns = []modelTurn{
		{says: []string{"It takes ", "a while."}, calls: terminal("sleep 10; echo done >> " + s.file())},
		{calls: terminal("sleep 5")},
		{says: []string{"It is ", "done."}},
	}
	return s
}

// file is what the tool of such a scene writes to.
func (s hermesScene) file() string { return s.prompt() + ".txt" }

// leaveInTool has clients leave when a tool of ten seconds has begun. Only with hermes_resume
// and a key does the agent go on, and the client that asks again gets what it has said
// meanwhile. Without a key, what asks again begins another agent.
func (h *hermesLab) leaveInTool(t *testing.T) {
	resuming, side := sidecar.ServeCaddyfile(t, "hermes_resume\n\thermes\n\treverse_proxy "+h.listen)
	ask := func(base string, s hermesScene, header ...string) (question string, w *wire) {
		question = h.question(s)
		return question, h.post(t, base+"/v1/chat/completions", chatOf(question), header...)
	}
	key := []string{"Idempotency-Key", "of the client's"}
	ofAlone, alone := ask(h.bare, leftAlone)
	ofWithout, without := ask(resuming, leftWithoutKey)
	ofWith, with := ask(resuming, leftWithKey, key...)
	ofDeleted, ended := ask(resuming, deleted, "X-Hermes-Detach", "10m")
	for _, w := range []*wire{alone, without, with, ended} {
		w.until("running")
	}
	for _, w := range []*wire{alone, without, with} {
		w.leave()
	}
	if w := h.send(t, http.MethodDelete, resuming+"/v1/chat/completions/"+ended.Header.Get("X-Hermes-Stream"), ""); w.StatusCode != http.StatusNoContent {
		t.Errorf("DELETE: %s", w.Status)
	}
	decode(t, ended.rest()).CheckError(t, "upstream_aborted")
	for _, s := range leftScenes {
		if n := h.done(t, s); n != 0 {
			t.Fatalf("%s: the tool was faster than the clients", s.name)
		}
	}
	// Only the one with a key goes on.
	if !side.Await("stream ended without clients") {
		t.Fatalf("no stream has ended by itself\n%s", side.Log)
	}
	if n := h.done(t, leftWithKey); n != 1 {
		t.Errorf("the tool has run %d times", n)
	}
	again := h.post(t, resuming+"/v1/chat/completions", chatOf(ofWith), key...)
	leftWithKey.check(t, again)
	if again.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("header %v", again.Header)
	}
	// Meanwhile an agent that was not stopped asks the model again.
	second := h.post(t, resuming+"/v1/chat/completions", chatOf(ofWithout))
	leftWithoutKey.check(t, second)

	turns := len(leftWithKey.turns)
	if n := h.model.asks(ofWith); n != turns {
		t.Errorf("the agent with a key has asked its model %d times, want %d", n, turns)
	}
	if n := h.model.asks(ofDeleted); n >= turns {
		t.Errorf("the agent that was ended has asked its model %d times", n)
	}
	if n := h.model.asks(ofWithout); n <= turns {
		t.Errorf("two agents have asked their model %d times", n)
	}
	fate := func(asked int) string {
		if asked < turns {
			return "the agent stops"
		}
		return "the agent goes on"
	}
	for _, s := range leftScenes {
		t.Logf("%s: the tool has come to its end %d times", s.name, h.done(t, s))
	}
	h.line("left in a tool of ten seconds", fate(h.model.asks(ofAlone)), fate(h.model.asks(ofWithout)-turns)+"; asked again, another begins")
	h.line("left, with `hermes_resume` and a key", "", fate(h.model.asks(ofWith))+"; asked again, all of its answer comes")
	h.line("ended by DELETE", "", fate(h.model.asks(ofDeleted)))
}

// check wants the whole answer.
func (s hermesScene) check(t *testing.T, w *wire) {
	t.Helper()
	a := decode(t, w.rest())
	a.CheckGood(t)
	if a.Content != s.text || len(a.Starts) != len(s.tools) {
		t.Errorf("content %q and %d tools", a.Content, len(a.Starts))
	}
}

// notOfEvents are the line that hermes_resume adds to an event, and comments, which have no blank
// line of their own there.
var notOfEvents = regexp.MustCompile(`(?m)^id: stream_[\w-]{22}/\d+\n|^:.*\n\n?`)

// decode decodes an answer without the ids of hermes_resume, and without comments.
func decode(t testing.TB, stream string) *strict.Answer {
	t.Helper()
	return strict.Decode(t, notOfEvents.ReplaceAllString(stream, ""))
}

// done returns how often the tool of a scene has come to its end.
func (h *hermesLab) done(t testing.TB, s hermesScene) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(h.work, s.file()))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Count(string(b), "done\n")
}

// An agentStream is one of the streams that are no chats, with a tool that runs.
type agentStream struct {
	name string
	file string                                              // of a recording
	open func(h *hermesLab, t *testing.T, base string) *wire // nil if there is none
	ends []string                                            // the events that the sidecar adds
}

var agentStreams = []agentStream{
	{
		name: "`/v1/responses`",
		file: "responses",
		open: func(h *hermesLab, t *testing.T, base string) *wire {
			return h.post(t, base+"/v1/responses", `{"model": "hermes-agent", "stream": true, "input": "`+h.question(killedInTool)+`"}`)
		},
		ends: []string{"response.output_item.done", "response.output_item.added", "response.output_item.done", "response.failed"},
	}, {
		name: "`/v1/runs/{id}/events`",
		file: "runs",
		open: func(h *hermesLab, t *testing.T, base string) *wire {
			id, ok := h.run(t, base, h.question(killedInTool))
			if !ok {
				return nil
			}
			return h.get(t, base+"/v1/runs/"+id+"/events")
		},
		ends: []string{"tool.completed", "run.failed"},
	}, {
		name: "`/api/sessions/{id}/chat/stream`",
		file: "session",
		open: func(h *hermesLab, t *testing.T, base string) *wire {
			var made struct{ Session struct{ ID string } }
			if w := h.post(t, base+"/api/sessions", "{}"); !w.json(&made) || made.Session.ID == "" {
				return nil
			}
			return h.post(t, base+"/api/sessions/"+made.Session.ID+"/chat/stream", `{"message": "`+h.question(killedInTool)+`"}`)
		},
		ends: []string{"tool.completed", "error", "done"},
	},
}

// killInText kills the gateway while the model speaks.
func (h *hermesLab) killInText(t *testing.T) {
	k := h.ask(t, killedInText)
	h.model.awaitHeld(t, 3) // without the sidecar openai-python breaks at the tool and leaves: that agent may have stopped
	k.bare.wire.until("Half a ")
	k.mended.wire.until("Half a ")
	h.kill()
	k.judge(t)
}

// killInTool kills it while a command runs.
func (h *hermesLab) killInTool(t *testing.T) {
	k := h.ask(t, killedInTool)
	h.awaitTools(t, 4)
	k.bare.wire.until("running")
	k.mended.wire.until("running")
	h.kill()
	_, mended := k.judge(t)
	if n := strings.Count(mended.raw, `"interrupted":true`); n != 1 {
		t.Errorf("%d tools were interrupted, want 1: %s", n, mended.raw)
	}
}

// killStream kills it while a command runs that another stream tells of.
func (h *hermesLab) killStream(t *testing.T, s agentStream) {
	bare, mended := s.open(h, t, h.bare), s.open(h, t, h.mended)
	if bare == nil || mended == nil {
		h.cannot(t, s.name)
		return
	}
	h.awaitTools(t, 2)
	bare.until("terminal")
	mended.until("terminal")
	h.kill()
	before, after := bare.rest(), mended.rest()
	record(t, s.file+" killed in a tool", before)
	for _, end := range s.ends {
		if eventsIn(after, end) <= eventsIn(before, end) {
			t.Errorf("%s: in %s\nand in %s", end, before, after)
		}
	}
	if bare.err == nil || mended.err != nil {
		t.Errorf("Hermes' stream ends with %v, the sidecar's with %v", bare.err, mended.err)
	}
	h.line(s.name+", killed in a tool", "breaks off", "ends with "+strings.Join(s.ends, ", "))
}

// kill kills the gateway, and starts it again.
func (h *hermesLab) kill() {
	h.Kill()
	os.RemoveAll(filepath.Join(h.work, "begun"))
	h.start(h.t)
}

// eventsIn is how often a stream has an event, named in a field of its own or in the data.
func eventsIn(stream, name string) int {
	return strings.Count(stream, "event: "+name+"\n") + strings.Count(stream, `"event":"`+name+`"`) + strings.Count(stream, `"event": "`+name+`"`)
}

// awaitTools returns when n commands have begun.
func (h *hermesLab) awaitTools(t *testing.T, n int) {
	t.Helper()
	harness.Until(t, fmt.Sprintf("%d tools have begun", n), func() bool {
		entries, _ := os.ReadDir(filepath.Join(h.work, "begun"))
		return len(entries) >= n
	})
}

const approvalRequest = "approval.request"

// victim makes what the dangerous command removes.
func (h *hermesLab) victim(t *testing.T) (gone func() bool) {
	t.Helper()
	dir := filepath.Join(h.work, "victim")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return func() bool { _, err := os.Stat(dir); return os.IsNotExist(err) }
}

// approveInChat asks for a dangerous command in a chat. Hermes waits for a person there, or
// tells the model at once that it may not.
func (h *hermesLab) approveInChat(t *testing.T) {
	h.victim(t)
	bare, _ := h.ask(t, dangerous).judge(t)
	if !strings.Contains(bare.raw, "event: "+approvalRequest) {
		h.cannot(t, "`"+approvalRequest+"` in a chat: the model is told that the command may not run")
		return
	}
	gone := h.victim(t)
	w := h.post(t, h.mended+"/v1/chat/completions", chatOf(h.question(dangerous)))
	asked := w.frame(approvalRequest)
	var q struct {
		RunID   string            `json:"run_id"`
		Choices []json.RawMessage `json:"choices"`
		Asked   []string          `json:"hermes_choices"`
	}
	if err := json.Unmarshal([]byte(asked), &q); err != nil || len(q.Choices) != 1 || len(q.Asked) == 0 {
		t.Errorf("not as contract section 2 says: %s", asked)
	}
	h.approve(t, q.RunID)
	if w.rest(); !gone() {
		t.Error("the command has not run")
	}
	h.line("an approval in a chat", "not tried", "ok")
}

// approveInRun does the same in a run, whose events ask a person.
func (h *hermesLab) approveInRun(t *testing.T) {
	for _, base := range []string{h.bare, h.mended} {
		gone := h.victim(t)
		id, ok := h.run(t, base, h.question(dangerous))
		if !ok {
			h.cannot(t, "`/v1/runs`")
			return
		}
		w := h.get(t, base+"/v1/runs/"+id+"/events")
		w.until(approvalRequest)
		h.approve(t, id)
		all := w.rest()
		record(t, "runs approval", all)
		if !gone() || !strings.Contains(all, "approval.responded") || !strings.Contains(all, "run.completed") {
			t.Errorf("the command has run: %v; %s", gone(), all)
		}
	}
	h.line("an approval in `/v1/runs/{id}/events`", "ok", "ok")
}

// approve says through the sidecar that a command may run.
func (h *hermesLab) approve(t *testing.T, run string) {
	t.Helper()
	w := h.post(t, h.mended+"/v1/runs/"+run+"/approval", `{"choice": "once"}`)
	if said := w.rest(); w.StatusCode != http.StatusOK {
		t.Errorf("%s: %s", w.Status, said)
	}
}

// run starts a run and returns its id.
func (h *hermesLab) run(t *testing.T, base, prompt string) (id string, ok bool) {
	t.Helper()
	w := h.post(t, base+"/v1/runs", `{"input": "`+prompt+`"}`)
	var run struct {
		ID string `json:"run_id"`
	}
	ok = w.json(&run)
	return run.ID, ok && run.ID != ""
}

// examinedByDoctor is the chat request of caddy hermes-doctor --ask: Reply with the
// single word: pong.
var examinedByDoctor = hermesScene{name: "Reply", turns: []modelTurn{{says: []string{"pong"}}}, text: "pong"}

// examine wants that caddy hermes-doctor knows the release of a real Hermes, finds no
// problem of it, and finds that a key is needed.
func (h *hermesLab) examine(t *testing.T, version string) {
	for key, want := range map[string]int{hermesKey: 0, "": 1} {
		cmd := exec.Command(sidecar.Binary(t), "hermes-doctor", "--to", h.bare, "--through", h.mended, "--ask", "--json",
			"--timeout", harness.Patience.String(), "--ask-timeout", harness.Patience.String())
		cmd.Env = sidecar.Environment(t.TempDir(), "API_SERVER_KEY="+key)
		out, err := cmd.Output()
		status := 0
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			status = exit.ExitCode()
		}
		var report struct {
			Agents []struct {
				Version, Releases string
				Findings          []struct{ Check, Level, Says string }
			}
		}
		if err := json.Unmarshal(out, &report); err != nil || len(report.Agents) != 1 || status != want || strings.Contains(string(out), hermesKey) {
			t.Fatalf("status %d, %v\n%s", status, err, out)
		}
		a := report.Agents[0]
		if a.Version != "" && a.Version != version || a.Version == "" && a.Releases == "" {
			t.Errorf("version %q, releases %q\n%s", a.Version, a.Releases, out)
		}
		t.Logf("the doctor takes it for Hermes %s", a.Releases)
		asked := false
		for _, f := range a.Findings {
			asked = asked || f.Check == "through.answer" && f.Level == "ok"
			if f.Level == "fail" && (key != "" || f.Check != "key") || f.Level == "warn" {
				t.Errorf("%s: %s", f.Check, f.Says)
			}
		}
		if asked != (key != "") {
			t.Errorf("asked through the sidecar: %v\n%s", asked, out)
		}
	}
}
