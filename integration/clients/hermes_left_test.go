package clients

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

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
	if !side.Says("stream ended while nobody listened") {
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
	// Meanwhile whoever was not stopped asks the model again.
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

// eventID is the line that hermes_resume adds to an event.
var eventID = regexp.MustCompile(`(?m)^id: stream_[\w-]{22}/\d+\n`)

// decode decodes an answer without the ids of hermes_resume.
func decode(t testing.TB, stream string) *strict.Answer {
	t.Helper()
	return strict.Decode(t, eventID.ReplaceAllString(stream, ""))
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
