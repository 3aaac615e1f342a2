package clients

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
)

// Open WebUI says who asks and in which chat, and a header of the connection tells a chat
// from titles and tags, as docs/recipes/who-asks.md has it.
func TestOpenWebUIWhoAsks(t *testing.T) {
	t.Setenv("ENABLE_FORWARD_USER_INFO_HEADERS", "true")
	h := newHouse(t, connection{model: "hermes-agent", options: sidecar.Options{}, headers: `{"X-OpenWebUI-Task": "chat{{TASK}}"}`})
	a := h.agents["hermes-agent"]
	h.open("hermes-agent")
	h.ask("play g0-v0.8.0/plain")
	h.ended()
	for deadline := time.Now().Add(harness.Patience); a.askedAside() < 3 && time.Now().Before(deadline); {
		time.Sleep(50 * time.Millisecond)
	}
	id := regexp.MustCompile("^[0-9a-f-]{36}$")
	var tasks []string
	chats := 0
	for _, req := range a.up.Requests() {
		if !strings.HasSuffix(req.URL.Path, "/chat/completions") {
			continue
		}
		if user, chat := req.Header.Get("X-OpenWebUI-User-Id"), req.Header.Get("X-OpenWebUI-Chat-Id"); !id.MatchString(user) || chat != h.chatID() {
			t.Errorf("user %q, chat %q, want chat %q", user, chat, h.chatID())
		}
		task := req.Header.Get("X-OpenWebUI-Task")
		tasks = append(tasks, task)
		if task == "chat" {
			chats++
		}
	}
	if t.Logf("tasks: %q", tasks); chats != 1 || len(tasks) != 4 {
		t.Errorf("tasks %q, want one chat of four", tasks)
	}
}
