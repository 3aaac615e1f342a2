package clients

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/browser"
)

// A crash is an error on the page, in the database, and on the page again when
// it is read from there. What the agent had said before stays.
func (h *house) crashIsError(t *testing.T) {
	const crashed, lost = "the agent failed before its answer was complete and gave no reason", "the connection to the agent was lost before its answer was complete"
	for _, test := range []struct{ ask, content, text, code string }{
		{"play g0-v0.8.0/crash_immediate", "", crashed, "agent_crashed"},
		{"play g0-v0.8.0/crash_after_text", "Partial answer", crashed, "agent_crashed"},
		{"play g0-v0.8.0/crash_in_tool", "Running.", crashed, "agent_crashed"},
		{"kill g0-v0.8.0/one_tool", "Let me check.", lost, "upstream_aborted"},
		{"play g2-v0.13.0/crash_after_text", "Partial answer", crashed, "agent_crashed"},
		{"play g3-v0.20.3/crash_after_text", "Partial answer", "boom after text", "agent_error"},
		{"play g3-v0.20.3/crash_in_tool", "Running.", "boom in tool", "agent_error"},
		{"kill g3-v0.20.3/one_tool", "Let me check.", lost, "upstream_aborted"},
	} {
		h.scene(t, test.ask, func(t *testing.T) {
			h.open("hermes-agent")
			h.ask(test.ask)
			if strings.HasPrefix(test.ask, "kill") {
				h.Wait(statusLine("💻 ls -la", true))
				h.agents["hermes-agent"].proceed()
			}
			h.Wait(saysBeside(test.text))
			m, raw := h.ended()
			var e struct{ Message, Code string }
			if m.Error == nil || json.Unmarshal(m.Error.Content, &e) != nil || e.Message != test.text || e.Code != test.code {
				t.Errorf("no error %q, %s is stored: %s", test.text, test.code, raw)
			}
			if m.Content != test.content {
				t.Errorf("stored is %q, want %q", m.Content, test.content)
			}
			if n := len(m.StatusHistory); n > 0 && !m.StatusHistory[n-1].Done {
				t.Errorf("a tool runs for ever: %+v", m.StatusHistory)
			}
			h.Do(chromedp.Reload())
			h.Wait(saysBeside(test.text))
			h.Wait(shows(test.content))
		})
	}
}

// A dead backend is an error with words for a reader, which it is not straight
// to Hermes.
func (h *house) refusalIsError(t *testing.T) {
	const unreachable = "the agent could not be reached"
	h.open("refused")
	h.agents["refused"].up.Close()
	h.ask("play g0-v0.8.0/one_tool")
	h.Wait(saysBeside(unreachable))
	if m, raw := h.ended(); m.Error == nil || m.Content != "" {
		t.Errorf("no error is stored, or a text is: %s", raw)
	}

	h.open("refused-direct")
	h.agents["refused-direct"].up.Close()
	h.ask("play g0-v0.8.0/one_tool")
	if m, raw := h.ended(); m.Error == nil || strings.Contains(raw, unreachable) {
		t.Errorf("straight to Hermes no error is stored, or the sidecar's: %s", raw)
	}
}

// Why errors are split from the finish chunk: Open WebUI does not store one that
// is inside.
func (h *house) inlineErrorIsNotStored(t *testing.T) {
	h.open("inline")
	h.ask("play g3-v0.20.3/crash_after_text")
	h.Wait(saysBeside("boom after text"))
	if m, raw := h.ended(); m.Error != nil {
		t.Errorf("an error in the finish chunk is stored: error_finish inline has become as good as split: %s", raw)
	}
}

// A model that is set to answer without a stream fails and succeeds alike.
func (h *house) unstreamed(t *testing.T) {
	h.derive("whole", "default", `{}`, `{"stream_response": false}`)
	h.open("whole")
	h.ask("play g0-v0.8.0/nonstream.one_tool")
	if m, raw := h.ended(); m.Content == "" || m.Error != nil {
		t.Errorf("stored is %s", raw)
	}
	// The agent has failed, and Hermes 0.8 calls its error an answer.
	h.open("whole")
	h.ask("play g0-v0.8.0/nonstream.failed_result")
	h.Wait(saysBeside("API call failed"))
	if m, raw := h.ended(); m.Error == nil || m.Content != "" {
		t.Errorf("no error is stored, or a text is: %s", raw)
	}
}

// The control: straight to Hermes there is a marker in the message, no status
// line, and a crash looks like an answer.
func (h *house) withoutSidecar(t *testing.T) {
	ask := func(words string) (message, string) {
		t.Helper()
		h.open("direct")
		h.ask(words)
		if strings.HasPrefix(words, "kill") {
			h.agents["direct"].proceed()
		}
		return h.ended()
	}
	m, raw := ask("play g0-v0.8.0/one_tool")
	if !strings.Contains(m.Content, marked) || h.hasStatusLine() {
		t.Errorf("no marker, or a status line: %s", raw)
	}
	h.Wait(shows("Let me check. 💻 ls -la There are 3 files."))
	if m, raw := ask("play g3-v0.20.3/one_tool"); m.Error != nil || h.hasStatusLine() || len(m.StatusHistory) > 0 {
		t.Errorf("a tool event brings an error, or a status line: %s", raw)
	}
	if m, raw := ask("play g0-v0.8.0/think_tags"); m.Content != "Answer 42" || m.text("reasoning") != "secret plan" {
		t.Errorf("reasoning is not in its place: %s", raw)
	}
	for words, content := range map[string]string{
		"play g0-v0.8.0/crash_immediate": "", "play g0-v0.8.0/crash_after_text": "Partial answer",
		"play g0-v0.8.0/crash_in_tool": "Running.\n`💻 make test`", "play g2-v0.13.0/crash_after_text": "Partial answer",
	} {
		if m, raw := ask(words); m.Error != nil || m.Content != content {
			t.Errorf("%s: an error is stored, or another text: %s", words, raw)
		}
	}
	// A broken connection is an error; what has been said is lost.
	if m, raw := ask("kill g0-v0.8.0/one_tool"); m.Error == nil || m.Content != "" {
		t.Errorf("no error is stored, or a text is: %s", raw)
	}
	// Hermes 0.20 says that it has crashed; that is lost.
	if m, raw := ask("play g3-v0.20.3/crash_after_text"); m.Error != nil || m.Content != "Partial answer" {
		t.Errorf("an error is stored, or another text: %s", raw)
	}
	h.Wait(saysBeside("boom after text"))
	h.Do(chromedp.Reload())
	h.Wait(shows("Partial answer"))
	if browser.Eval[bool](h.Tab, saysBeside("boom")) {
		t.Error("read again the page has the error")
	}
}
