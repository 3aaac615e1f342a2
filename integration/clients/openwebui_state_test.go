package clients

import (
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/browser"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
)

// approval is the name of an answer in which a tool waits for an approval, as the
// source of the newest Hermes says it: the tool has started, and ends after the
// decision, of which the stream says nothing.
const approval = "newest/approval"

// approvalTape makes that answer.
func approvalTape(t testing.TB) hermes.Recording {
	const event = `{"command": "rm -rf build", "pattern_key": "recursive delete", "pattern_keys": ["recursive delete"], "description": "recursive delete", ` +
		`"allow_permanent": true, "allow_session": true, "request_id": "0f9c2d4e6a8b4c1d9e3f5a7b8c9d0e1f", "event": "approval.request", "run_id": "chatcmpl-5ec0de", ` +
		`"timestamp": 1795164799.25, "session_id": "api-6011329ef318702e", "choices": ["once", "session", "always", "deny"]}`
	var body strings.Builder
	for _, frame := range append([][]string{
		hermes.One(hermes.Role),
		hermes.One(hermes.Delta("content", "Cleaning up.")),
		hermes.Running("terminal", "call_1"),
		{"event: approval.request", "data: " + event},
		hermes.Completed("terminal", "call_1"),
		hermes.One(hermes.Delta("content", "\n\nDone.")),
	}, hermes.Good()...) {
		body.WriteString(strings.Join(frame, "\n") + "\n\n")
	}
	return hermes.Recording{Generation: "newest", Scenario: "approval", Header: hermes.Recorded(t, "g4-transcribed/status_wait").Header, Body: []byte(body.String())}
}

// An approval that is needed is said above the message while the tool waits for
// it. The answer goes on after it, and is stored as any other.
func (h *house) approvalIsStatusLine(t *testing.T) {
	a := h.agents["both"]
	h.open("both")
	h.ask("hold " + approval)
	h.Wait(statusLine("💻 ls -la", true))
	a.proceed()
	h.Wait(statusLine("Approval needed: rm -rf build", true))
	h.draws("Cleaning up.", "… Preparing 💻 ls -la...")
	h.Picture("open webui approval")
	a.proceed()
	m, raw := h.ended()
	h.Wait(statusLine("💻 ls -la", false))
	h.draws("Cleaning up.", "✓ View Result from 💻 ls -la", "Done.")
	h.checkCards(t, m, "hold "+approval)
	if m.Error != nil {
		t.Errorf("an error is stored: %s", raw)
	}

	// Without a status line the approval is not seen, and does no harm.
	h.open("hermes-agent")
	h.ask("play " + approval)
	m, _ = h.ended()
	h.draws("Cleaning up.", "✓ View Result from 💻 ls -la", "Done.")
	if m.Error != nil || h.hasStatusLine() {
		t.Errorf("an error is stored, or there is a status line: %+v", m)
	}
}

// What Hermes says of its state is said above the message.
func (h *house) stateIsStatusLine(t *testing.T) {
	h.open("both")
	h.ask("play g4-transcribed/status_wait")
	m, raw := h.ended()
	h.Wait(statusLine("⏳ Retrying in 2.0s (attempt 1/3)...", false))
	h.draws("ok")
	if m.Error != nil || m.Content != "ok" || len(m.StatusHistory) != 1 {
		t.Errorf("stored is %s", raw)
	}
	if browser.Eval[bool](h.Tab, saysBeside("lifecycle")) {
		t.Error("more than the text is said")
	}
}
