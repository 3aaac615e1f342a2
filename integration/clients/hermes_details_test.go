package clients

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
)

// TestRealDetails has a real Hermes run tools, and wants in the tool events what they were given and
// what they returned, as Hermes has stored it (contract section 8).
func TestRealDetails(t *testing.T) {
	program, version := installHermes(t)
	h := newDetailsLab(t, program, "tool_details full")
	t.Logf("hermes-agent %s", version)
	h.driver = startPython(t)
	for _, s := range detailScenes() {
		t.Run(s.name, func(t *testing.T) { h.tell(t, s) })
	}
	t.Run("openai-python", h.seenByPython)
}

// A detailsLab is a real Hermes behind sites that differ in what they tell of tools.
type detailsLab struct {
	*hermesLab
	live  bool              // Hermes stores a turn while it runs
	sites map[string]string // base URLs, by the options of hermes
}

// newDetailsLab starts a Hermes and a site for each of the options.
func newDetailsLab(t *testing.T, program string, options ...string) *detailsLab {
	h := &detailsLab{hermesLab: &hermesLab{t: t, model: newScriptedModel(t, map[string][]modelTurn{})}, sites: map[string]string{}}
	h.gateway = newGateway(t, program, h.model.up.Addr, 15, 0)
	h.bare = "http://" + h.listen
	h.live = h.stores(t)
	t.Logf("Hermes stores a turn while it runs: %v", h.live)
	var sites strings.Builder
	for _, o := range options {
		listen := harness.FreePort(t)
		h.sites[o] = "http://" + listen
		fmt.Fprintf(&sites, "%s\thermes {\n\t\t%s\n\t}\n\treverse_proxy %s\n}\n", sidecar.OnLoopback(listen), o, h.listen)
	}
	h.mended = h.sites[options[0]]
	sidecar.RunCaddyfile(t, t.TempDir(), "{\n\tadmin off\n}\n"+sites.String())
	return h
}

// stores reports whether a tool's arguments are stored when its running event comes, and its result
// with the completed one. Hermes 0.16 stores a turn when it ends.
func (h *detailsLab) stores(t testing.TB) bool {
	t.Helper()
	// Neither the tool nor the turn ends before the rows are counted.
	s := hermesScene{name: "stores", turns: []modelTurn{{says: []string{"One."}, calls: terminal("while [ ! -e counted ]; do sleep 0.1; done; echo one")}, {says: []string{"Done."}, ends: lasts}}}
	h.model.write(s.prompt(), s.turns)
	question := h.question(s)
	w := h.post(t, h.bare+"/v1/chat/completions", chatOf(question))
	session := w.Header.Get("X-Hermes-Session-Id")
	w.until(`"running"`)
	given := len(h.rows(t, session))
	harness.WriteFile(t, filepath.Join(h.work, "counted"), nil)
	w.until(`"completed"`)
	returned := len(h.rows(t, session))
	h.model.end(question)
	w.rest()
	rows := h.rows(t, session)
	if len(rows) != 4 || rows[1].ToolCalls[0].Function.Arguments != s.turns[0].calls[0].arguments || !strings.Contains(string(rows[2].Content), "one") {
		t.Fatalf("at the end Hermes has stored %+v", rows)
	}
	h.model.needsTools(t)
	return given == 2 && returned == 3
}

// A storedRow is a row of a session.
type storedRow struct {
	Role       string
	Content    json.RawMessage
	ToolCallID string `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       string
		Function struct{ Name, Arguments string }
	} `json:"tool_calls"`
}

// rows asks Hermes itself for what it has stored.
func (h *detailsLab) rows(t testing.TB, session string) []storedRow {
	t.Helper()
	w := h.get(t, h.bare+"/api/sessions/"+session+"/messages")
	var list struct{ Data []storedRow }
	if !w.json(&list) {
		t.Errorf("%s %s", w.Status, w.read.String())
	}
	return list.Data
}

// results are what the tools of a session's last turn have returned, in order.
func results(rows []storedRow) (all []string) {
	for _, r := range rows {
		switch r.Role {
		case "user":
			all = nil
		case "tool":
			var text string
			json.Unmarshal(r.Content, &text)
			all = append(all, text)
		}
	}
	return all
}

// A toolEvent is what a tool event tells.
type toolEvent struct {
	Tool, ToolCallID, Status string
	Args                     json.RawMessage
	Result                   *string
	Failed                   bool
}

// toolEvents are those of an answer.
func toolEvents(t testing.TB, a *strict.Answer) (all []toolEvent) {
	t.Helper()
	for _, e := range a.Events {
		if e.Chunk == nil || e.Status == "" {
			continue
		}
		var tool toolEvent
		if err := json.Unmarshal([]byte(e.Data), &tool); err != nil {
			t.Error(err)
		}
		all = append(all, tool)
	}
	return all
}

// A detailScene is a chat in which tools run.
type detailScene struct {
	hermesScene
	failed []bool // for each call, in the order of their ends
	once   bool   // Hermes reports one end for all of them
}

// detailScenes have words of their own in arguments.
func detailScenes() []detailScene {
	word := rand.Text
	read := func(path string) modelCall { return modelCall{"read_file", `{"path": "` + path + `"}`} }
	return []detailScene{
		{hermesScene: hermesScene{name: "one after another", turns: []modelTurn{
			{says: []string{"Let me see."}, calls: terminal("echo " + word() + "; : 'two words'")},
			{says: []string{"And now."}, calls: terminal("echo " + word() + "; exit 3")},
			{calls: []modelCall{read("none-" + word())}},
			{says: []string{"That is all."}},
		}}, failed: []bool{false, true, true}},
		{hermesScene: hermesScene{name: "in parallel", turns: []modelTurn{
			{says: []string{"At once."}, calls: []modelCall{read("a-" + word()), read("b-" + word()), {"search_files", `{"pattern": "` + word() + `"}`}}},
			{says: []string{"That is all."}},
		}}, failed: []bool{true, true, false}},
		{hermesScene: hermesScene{name: "under one id", turns: []modelTurn{
			{says: []string{"Let me see."}, id: "call_0", calls: terminal("echo " + word())},
			{says: []string{"And now."}, id: "call_0", calls: terminal("echo " + word() + "; exit 3")},
			{says: []string{"That is all."}},
		}}, failed: []bool{false, true}},
		{hermesScene: hermesScene{name: "in parallel under one id", turns: []modelTurn{
			{says: []string{"At once."}, id: "call_0", calls: []modelCall{read("a-" + word()), read("b-" + word()), {"search_files", `{"pattern": "` + word() + `"}`}}},
			{says: []string{"That is all."}},
		}}, failed: []bool{true, true, false}, once: true},
		{hermesScene: hermesScene{name: "what is hard to quote", turns: []modelTurn{
			{says: []string{"Let me see."}, calls: []modelCall{{"terminal", `{"command": "printf '\\342\\200\\256 \\033[31m \"q\" ` + "```" + ` </details> \\n\\n : data: \\360\\237\\230\\200 %s\\n' ` + word() + `"}`}}},
			{says: []string{"That is all."}},
		}}, failed: []bool{false}},
	}
}

// calls are all calls of a scene.
func (s detailScene) calls() (all []modelCall) {
	for _, turn := range s.turns {
		all = append(all, turn.calls...)
	}
	return all
}

// tell wants each event of a scene to tell what Hermes has stored.
func (h *detailsLab) tell(t *testing.T, s detailScene) {
	h.model.write(s.prompt(), s.turns)
	w := h.post(t, h.mended+"/v1/chat/completions", chatOf(h.question(s.hermesScene)))
	a := decode(t, w.rest())
	a.CheckGood(t)
	defer func() {
		if t.Failed() {
			t.Logf("the stream:\n%s", w.read.String())
		}
	}()
	want, stored := s.calls(), results(h.rows(t, w.Header.Get("X-Hermes-Session-Id")))
	if len(stored) != len(want) {
		t.Fatalf("Hermes has stored %d results of %d calls", len(stored), len(want))
	}
	running, ended := map[string]modelCall{}, 0
	started := 0
	for _, e := range toolEvents(t, a) {
		switch {
		case !h.live:
			if e.Args != nil || e.Result != nil || e.Failed {
				t.Errorf("Hermes had stored nothing, and the event is %+v", e)
			}
		case e.Status == "running":
			if e.Result != nil || e.Failed || !sameJSON(e.Args, want[started].arguments) {
				t.Errorf("running is %+v, want the arguments %s", e, want[started].arguments)
			}
			running[e.ToolCallID] = want[started]
			started++
		case s.once && e.Result == nil: // it ends with the stream, and nobody has reported that
		default:
			if !sameJSON(e.Args, running[e.ToolCallID].arguments) || e.Result == nil || *e.Result != stored[ended] || e.Failed != s.failed[ended] {
				t.Errorf("completed is %s, want the arguments %s, the result %s, failed %v", asJSON(e), running[e.ToolCallID].arguments, stored[ended], s.failed[ended])
			}
			ended++
		}
	}
	if h.live && (started != len(want) || ended != len(want) && !(s.once && ended > 0)) {
		t.Errorf("%d of %d tools have arguments, %d a result", started, len(want), ended)
	}
}

// sameJSON reports whether two values are the same but for white space and the order of members.
func sameJSON(a json.RawMessage, b string) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}

func asJSON(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

// oneTool is a scene with a word in its tool's arguments, and another in its result.
func (h *detailsLab) oneTool(t testing.TB, name string) (s hermesScene, given, returned string) {
	t.Helper()
	given, returned = rand.Text(), rand.Text()
	harness.WriteFile(t, filepath.Join(h.work, given), []byte(returned+"\n"))
	s = hermesScene{name: name, turns: []modelTurn{{says: []string{"Let me see."}, calls: terminal("cat " + given)}, {says: []string{"That is all."}}}}
	h.model.write(s.prompt(), s.turns)
	return s, given, returned
}

// seenByPython wants a program that uses openai-python to read the details in its chunks.
func (h *detailsLab) seenByPython(t *testing.T) {
	s, given, returned := h.oneTool(t, "seen by python")
	got := h.driver.send(map[string]any{"base_url": h.mended + "/v1", "prompt": h.question(s), "api_key": hermesKey}, harness.Patience)
	if got.Error != nil || got.hung || got.Text != "Let me see.\n\nThat is all." {
		t.Fatalf("it sees %+v", got)
	}
	if !h.live {
		return
	}
	if len(got.Details) != 2 || !bytes.Contains(got.Details[0], []byte(given)) || bytes.Contains(got.Details[0], []byte(returned)) || !bytes.Contains(got.Details[1], []byte(returned)) {
		t.Errorf("it sees %s", got.Details)
	}
}
