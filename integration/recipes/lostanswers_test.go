package recipes

import (
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// Regenerate brings the answer that was lost, and after that another one. The programs themselves are
// in integration/clients.
func TestRecipeLostAnswers(t *testing.T) {
	up, rest := upstream.Held(t)
	const header = "X-Chat-Id" // that all three name
	recipeOf(t, "open-webui-headers").With(header, header)
	recipeOf(t, "librechat-headers").With(header, header)
	c := onPort(t, recipeOf(t, "lost-answers").With("{header."+header+"}", "{header."+header+"}").With("127.0.0.1:8642", up.Addr).With("detach 1m", "detach 10m"))
	first := c.Chat(header, "1")
	id := first.Header.Get("X-Hermes-Stream")
	first.Leave()
	again := c.Chat(header, "1") // before the end, which may be sent to the first client, too
	close(rest)
	again.All()
	if got := again.Header.Get("X-Hermes-Stream"); id == "" || got != id || len(up.Requests()) != 1 {
		t.Errorf("the stream is %q, then %q; the agent was asked %d times", id, got, len(up.Requests()))
	}
	c.Chat(header, "1").All()
	if n := len(up.Requests()); n != 2 {
		t.Errorf("then the agent was asked %d times", n)
	}
}
