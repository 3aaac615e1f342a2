package clients

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
)

// TestRealMemory has chats with a real Hermes go on, and looks at what its model is sent: what the
// agent did in the answers before is in the user's messages, as contract section 8 has it.
func TestRealMemory(t *testing.T) {
	program, version := installHermes(t)
	t.Logf("hermes-agent %s", version)
	h := newDetailsLab(t, program, "memory on", "memory results", "memory off", "history keep")
	h.sites["alone"] = h.bare
	t.Run("second turn", h.secondTurn)
	t.Run("twelve turns", h.twelveTurns)
	t.Run("a session of Hermes", h.namedSession)
	t.Run("openai-python", h.python)
	t.Run("LibreChat", h.libreChat)
}

// say asks a site with a chat, and returns the answer's text.
func (h *detailsLab) say(t testing.TB, site string, chat []string, header ...string) string {
	t.Helper()
	w := h.post(t, h.sites[site]+"/v1/chat/completions", chatWith(chat...), header...)
	a := decode(t, w.rest())
	if w.StatusCode != http.StatusOK || a.Finish != "stop" {
		t.Fatalf("%s %s", w.Status, w.read.String())
	}
	return a.Content
}

// A modelRequest is what the model was first sent about a question.
type modelRequest struct {
	messages []json.RawMessage
	user     string // the user's latest message
	users    string // all of them
}

// heard returns the first request about a question that was streamed.
func (h *detailsLab) heard(t testing.TB, question string) (r modelRequest) {
	t.Helper()
	for _, body := range h.model.sent() {
		var q struct {
			Stream   bool
			Messages []json.RawMessage
		}
		if json.Unmarshal([]byte(body), &q); !q.Stream {
			continue
		}
		r = modelRequest{messages: q.Messages}
		for _, raw := range q.Messages {
			var msg struct {
				Role    string
				Content json.RawMessage
			}
			if json.Unmarshal(raw, &msg); msg.Role == "user" {
				r.user = textOf(msg.Content)
				r.users += r.user + "\n"
			}
		}
		if r.user == question || strings.HasSuffix(r.user, "\n"+question) {
			return r
		}
	}
	t.Fatalf("the model has not been asked %q", question)
	return r
}

// count is how often a word is in all messages.
func (r modelRequest) count(word string) int {
	n := 0
	for _, raw := range r.messages {
		n += bytes.Count(raw, []byte(word))
	}
	return n
}

// next is a question that the model answers without a tool.
func (h *detailsLab) next(t testing.TB) string {
	t.Helper()
	s := hermesScene{name: "next", turns: []modelTurn{{says: []string{"As you say."}}}}
	h.model.write(s.prompt(), s.turns)
	return h.question(s)
}

// toolTurn has a site answer with a tool, and returns the two messages of that turn.
func (h *detailsLab) toolTurn(t testing.TB, site, name string, header ...string) (chat []string, given, returned string) {
	t.Helper()
	s, given, returned := h.oneTool(t, name)
	question := h.question(s)
	return []string{question, h.say(t, site, []string{question}, header...)}, given, returned
}

// remembers is how often a request has what its site lets the model know of a tool.
func (h *detailsLab) remembers(site string) (given, returned int) {
	switch {
	case site == "memory on":
		return 1, 0
	case site == "memory results" && h.live:
		return 1, 1
	case site == "memory results": // what Hermes stores too late
		return 1, 0
	}
	return 0, 0
}

// The model knows in the second turn what it did in the first, and from whom: the record is in the
// user's message, before what the user wrote.
func (h *detailsLab) secondTurn(t *testing.T) {
	for _, site := range []string{"memory on", "memory results", "memory off", "history keep", "alone"} {
		t.Run(site, func(t *testing.T) {
			chat, given, returned := h.toolTurn(t, site, "second turn")
			question := h.next(t)
			h.say(t, site, append(chat, question))
			r := h.heard(t, question)
			wantGiven, wantReturned := h.remembers(site)
			if r.count(given) != wantGiven || r.count(returned) != wantReturned {
				t.Errorf("the arguments are there %d times, the result %d times, want %d and %d: %s", r.count(given), r.count(returned), wantGiven, wantReturned, r.messages)
			}
			if strings.Count(r.user, given) != wantGiven || strings.Count(r.user, returned) != wantReturned {
				t.Errorf("they are in another message than %q", r.user)
			}
			if (r.user == question) != (wantGiven == 0) {
				t.Errorf("the user's message is %q", r.user)
			}
			t.Logf("the user's message:\n%s", r.user)
		})
	}
}

// In twelve turns with a tool each, what the model has been sent is never another than before: a
// provider's cache of prompts works as without the sidecar.
func (h *detailsLab) twelveTurns(t *testing.T) {
	var chat []string
	var before []json.RawMessage
	var words []string
	for turn := range 12 {
		s, given, _ := h.oneTool(t, fmt.Sprintf("turn %d", turn))
		question := h.question(s)
		chat = append(chat, question)
		chat = append(chat, h.say(t, "memory on", chat))
		r := h.heard(t, question)
		for i, raw := range before {
			if i >= len(r.messages) || !bytes.Equal(raw, r.messages[i]) {
				t.Fatalf("turn %d: message %d was %s, and is %s", turn, i, raw, r.messages[i])
			}
		}
		for _, word := range words {
			if n := r.count(word); n != 1 {
				t.Fatalf("turn %d: the arguments %s are there %d times", turn, word, n)
			}
		}
		before, words = r.messages, append(words, given)
	}
}

// A session that the client names has a history of its own, calls and all.
func (h *detailsLab) namedSession(t *testing.T) {
	session := []string{"X-Hermes-Session-Id", "of-this-test-" + strings.ToLower(rand.Text())}
	chat, given, _ := h.toolTurn(t, "memory on", "named session", session...)
	question := h.next(t)
	h.say(t, "memory on", append(chat, question), session...)
	if r := h.heard(t, question); r.user != question || r.count(given) == 0 {
		t.Errorf("the model is sent %s", r.messages)
	}
}

// python has a program with openai-python go on with a chat.
func (h *detailsLab) python(t *testing.T) {
	h.driver = startPython(t)
	h.goesOn(t, h.driver)
}

// libreChat has LibreChat's engine go on with one.
func (h *detailsLab) libreChat(t *testing.T) {
	d := startDriver(t, exec.Command("node", besideModules(t, libreChat(t, &workshop{t: t}), "librechat/librechat.mjs")))
	d.ready()
	t.Logf("@librechat/agents %s", d.version)
	h.goesOn(t, d)
}

// goesOn has a program ask twice, with the text of the first answer in its second request.
func (h *detailsLab) goesOn(t *testing.T, d *driver) {
	for _, site := range []string{"memory on", "memory results"} {
		ask := func(chat ...string) seen {
			t.Helper()
			c := map[string]any{"base_url": h.sites[site] + "/v1", "api_key": hermesKey, "messages": turnsOf(chat...), "prompt": chat[0]}
			got := d.send(c, harness.Patience)
			if got.Error != nil || got.hung {
				t.Fatalf("%s sees %+v", site, got)
			}
			return got
		}
		s, given, returned := h.oneTool(t, "goes on")
		first, question := h.question(s), h.next(t)
		said := ask(first).Text
		ask(first, said, question)
		wantGiven, wantReturned := h.remembers(site)
		if r := h.heard(t, question); r.count(given) != wantGiven || r.count(returned) != wantReturned || strings.Count(r.user, given) != wantGiven {
			t.Errorf("%s: after %q the model is sent %s", site, said, r.messages)
		}
	}
}
