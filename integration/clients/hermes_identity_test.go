package clients

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
)

// TestRealIdentity has two users of a real Hermes begin alike, through the option identity. Which way
// separates what, beside the session, is in docs/recipes/who-asks.md.
func TestRealIdentity(t *testing.T) {
	program, version := installHermes(t)
	h := &hermesLab{t: t, model: newScriptedModel(t, map[string][]modelTurn{alike: {{says: []string{"Good morning."}}}})}
	h.gateway = newGateway(t, program, h.model.up.Addr, 15, 0)
	t.Logf("hermes-agent %s", version)
	for _, c := range []struct {
		by    []string
		apart bool // the session
	}{
		{nil, false},
		{[]string{"header"}, false},
		{[]string{"session"}, true},
		{[]string{"prompt"}, true},
		{[]string{"header", "session"}, true},
	} {
		t.Run("by "+strings.Join(c.by, " and "), func(t *testing.T) {
			var lines strings.Builder
			for _, by := range c.by {
				fmt.Fprintf(&lines, "\n\t\tidentity {header.X-User} by %s", by)
			}
			base, _ := sidecar.ServeCaddyfile(t, "hermes {"+lines.String()+"\n\t}\n\treverse_proxy "+h.listen)
			h.twoUsers(t, base, c.by, c.apart)
		})
	}
}

// alike is the first word of both users.
const alike = "Alike"

// twoUsers has both ask the same.
func (h *hermesLab) twoUsers(t *testing.T, base string, by []string, apart bool) {
	h.asked++
	first, turns := fmt.Sprintf("%s %d", alike, h.asked), 2
	sessions := map[string]string{}
	for _, user := range []string{"alice", "ben"} {
		chat := []map[string]string{{"role": "system", "content": "You help."}, {"role": "user", "content": first}}
		for turn := range turns {
			body, err := json.Marshal(map[string]any{"model": "hermes-agent", "stream": true, "messages": chat})
			if err != nil {
				t.Fatal(err)
			}
			before := len(h.model.sent())
			// The other's name, as a client may write it.
			w := h.post(t, base+"/v1/chat/completions", string(body), "X-User", user, "X-Hermes-Session-Key", "of another")
			a := decode(t, w.rest())
			if w.StatusCode != http.StatusOK || a.Finish != "stop" {
				t.Fatalf("%s: %s %s", user, w.Status, w.read.String())
			}
			id := w.Header.Get("X-Hermes-Session-Id")
			if turn > 0 && id != sessions[user] {
				t.Errorf("the chat of %s goes on in the session %s, and began in %s", user, id, sessions[user])
			}
			sessions[user] = id
			if key := w.Header.Get("X-Hermes-Session-Key"); len(by) > 0 && by[0] == "header" && (key == "" || key == "of another") {
				t.Errorf("%s has the key %q", user, key)
			}
			asked := func(text string) bool { // Hermes may also ask the model for a title
				return strings.Contains(text, "And now?") && strings.Contains(text, "Good morning.")
			}
			if turn > 0 && !slices.ContainsFunc(h.model.sent()[before:], asked) {
				t.Errorf("the model of %s does not know the first answer: %q", user, h.model.sent()[before:])
			}
			chat = append(chat, map[string]string{"role": "assistant", "content": "Good morning."}, map[string]string{"role": "user", "content": "And now?"})
		}
	}
	if got := sessions["alice"] != sessions["ben"]; got != apart {
		t.Errorf("the sessions are %v, want them apart: %v", sessions, apart)
	}
}
