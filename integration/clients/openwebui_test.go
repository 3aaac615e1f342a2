package clients

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/browser"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
)

// TestOpenWebUI drives a real Open WebUI in a browser. Its scenes have one
// process of it in common, because it takes half a minute to start.
func TestOpenWebUI(t *testing.T) {
	h := newHouse(t,
		connection{model: "hermes-agent", options: sidecar.Options{"status_line": true}},
		connection{model: "direct"},
		connection{model: "default", options: sidecar.Options{}},
		connection{model: "bare", options: sidecar.Options{"status_line": true, "progress": "bare"}},
		connection{model: "unnamed", options: sidecar.Options{"status_line": true, "progress": "unnamed"}},
		connection{model: "comment", options: sidecar.Options{"status_line": true, "progress": "comment"}},
		connection{model: "off", options: sidecar.Options{"status_line": true, "progress": "off"}},
		connection{model: "inline", options: sidecar.Options{"error_finish": "inline"}},
		connection{model: "keepalive", options: sidecar.Options{"status_line": true, "keepalive": "20ms"}},
		connection{model: "refused", options: sidecar.Options{}},
		connection{model: "refused-direct"},
		connection{model: "old"},
		connection{model: "headers", options: sidecar.Options{"status_line": true},
			headers: `{"X-Hermes-Tool-Progress": "off", "X-Chat-Id": "{{CHAT_ID}}"}`},
	)
	h.scene(t, "status", h.toolIsStatusLine)
	h.scene(t, "tools", h.severalTools)
	h.scene(t, "text", h.textIsModern)
	h.scene(t, "progress", h.progressForms)
	h.scene(t, "crash", h.crashIsError)
	h.scene(t, "refused", h.refusalIsError)
	h.scene(t, "inline", h.inlineErrorIsNotStored)
	h.scene(t, "unstreamed", h.unstreamed)
	h.scene(t, "without", h.withoutSidecar)
	h.scene(t, "history", h.historyIsHealed)
	h.scene(t, "reasoning", h.reasoningIsFolded)
	h.scene(t, "keepalive", h.keepalivesAreNotSeen)
	h.scene(t, "stop", h.stopReachesHermes)
	h.scene(t, "headers", h.headersOfConnection)
	h.scene(t, "pictures", h.picturesOfAChat)
	h.scene(t, "asides", h.settingsThatSaveRuns)
	h.scene(t, "browser", h.browserConnects)
}

// storedModern is what Hermes 0.20 says in a scenario, as Open WebUI stores it:
// without white space at both ends.
func storedModern(t testing.TB, scenario string) string {
	t.Helper()
	return strings.TrimSpace(strict.Decode(t, string(hermes.Recorded(t, "g3-v0.20.3/"+scenario).Body)).Content)
}

// marked is in whatever holds a marker of the recording one_tool, in JSON too.
const marked = "`💻"

// The line above the message says what runs while it runs, with every
// generation of Hermes, and the message is that of Hermes 0.20.
func (h *house) toolIsStatusLine(t *testing.T) {
	for _, generation := range []string{"g0-v0.8.0", "g1-v0.9.0", "g2-v0.13.0", "g3-v0.20.3", "g4-transcribed"} {
		h.scene(t, generation, func(t *testing.T) {
			h.open("hermes-agent")
			h.ask("hold " + generation + "/one_tool")
			h.Wait(statusLine("💻 ls -la", true))
			h.Wait(shows("Let me check."))
			h.agents["hermes-agent"].proceed()
			h.Wait(statusLine("💻 ls -la", false))
			m, raw := h.ended()
			h.checkGood(t, m, "one_tool")
			h.Wait(shows("Let me check. There are 3 files."))
			if strings.Contains(raw, marked) {
				t.Errorf("a marker is stored: %s", raw)
			}
			if n := len(m.StatusHistory); n != 2 || m.StatusHistory[0].Done || !m.StatusHistory[1].Done {
				t.Errorf("stored status lines: %+v", m.StatusHistory)
			}
		})
	}
}

// checkGood wants a stored message with the text of Hermes 0.20 and no error.
func (h *house) checkGood(t *testing.T, m message, scenario string) {
	t.Helper()
	if want := storedModern(t, scenario); m.Content != want || m.text("message") != want {
		t.Errorf("%s: stored are %q and %q, want %q", scenario, m.Content, m.text("message"), want)
	}
	if m.Error != nil {
		t.Errorf("%s: stored with an error: %s", scenario, m.Error.Content)
	}
}

// Each tool has a line with its beginning and one with its end, and nothing
// goes on running.
func (h *house) severalTools(t *testing.T) {
	for scenario, last := range map[string]string{"seq_tools": "✍️ out.txt", "parallel_tools": "🔍 golang sse"} {
		h.open("hermes-agent")
		h.ask("play g0-v0.8.0/" + scenario)
		m, _ := h.ended()
		h.checkGood(t, m, scenario)
		h.Wait(statusLine(last, false))
		running := map[string]int{}
		for _, s := range m.StatusHistory {
			if s.Done {
				running[s.Description]--
			} else {
				running[s.Description]++
			}
		}
		for tool, n := range running {
			if n != 0 {
				t.Errorf("%s: %s has begun %d times more than ended: %+v", scenario, tool, n, m.StatusHistory)
			}
		}
		h.Click(`[aria-label="Toggle status history"]`)
		h.Wait(fmt.Sprintf(`document.querySelectorAll(".status-description").length === %d`, len(m.StatusHistory)+1))
		h.Picture("tools " + scenario)
	}
}

// What looks like a marker and is none stays, whatever is one goes.
func (h *house) textIsModern(t *testing.T) {
	for _, scenario := range []string{"plain", "inline_code", "labels", "emoji_all", "tool_first", "internal_tool", "slow_tool"} {
		h.open("hermes-agent")
		h.ask("play g0-v0.8.0/" + scenario)
		m, _ := h.ended()
		h.checkGood(t, m, scenario)
	}
	h.open("hermes-agent")
	h.ask("play g0-v0.8.0/model_imitates")
	if m, _ := h.ended(); m.Content != "Sure\ndone" || len(m.StatusHistory) != 0 {
		t.Errorf("an imitation: stored is %q, and %+v", m.Content, m.StatusHistory)
	}
}

// No form of tool events harms Open WebUI. The two with the members of a chunk
// bring the status line.
func (h *house) progressForms(t *testing.T) {
	for _, test := range []struct {
		model string
		line  bool
	}{{"default", false}, {"bare", false}, {"unnamed", true}, {"comment", false}, {"off", false}} {
		for _, generation := range []string{"g0-v0.8.0", "g3-v0.20.3"} {
			h.open(test.model)
			h.ask("play " + generation + "/one_tool")
			m, _ := h.ended()
			h.checkGood(t, m, "one_tool")
			if got := h.hasStatusLine(); got != test.line || len(m.StatusHistory) > 0 != test.line {
				t.Errorf("%s, %s: a status line is %v, want %v; stored %+v", test.model, generation, got, test.line, m.StatusHistory)
			}
		}
	}
}

// A chat from the time before the sidecar goes on without its markers, as soon
// as the URL of the connection is that of the sidecar.
func (h *house) historyIsHealed(t *testing.T) {
	old := h.agents["old"]
	h.open("old")
	h.ask("play g0-v0.8.0/one_tool")
	h.ended()
	chat := h.chatID()
	h.ask("play g0-v0.8.0/plain")
	h.ended()
	if said := old.last().said(); len(said) != 1 || !strings.Contains(said[0], marked) {
		t.Errorf("straight to Hermes the history is %q", said)
	}

	h.move("old", sidecar.Options{})
	h.Do(chromedp.Navigate(h.base + "/c/" + chat))
	h.Wait(`document.querySelectorAll(".chat-assistant").length === 2`)
	if got := browser.Eval[string](h.Tab, `document.body.innerText`); !strings.Contains(got, "💻 ls -la") {
		t.Errorf("the old chat has no marker: %s", got)
	}
	h.ask("play g0-v0.8.0/seq_tools")
	h.ended()
	want := []string{storedModern(t, "one_tool"), storedModern(t, "plain")}
	if said := old.last().said(); !slices.Equal(said, want) {
		t.Errorf("through the sidecar the history is %q, want %q", said, want)
	}
	h.ask("play g0-v0.8.0/plain")
	h.ended()
	if said := old.last().said(); !slices.Equal(said, append(want, storedModern(t, "seq_tools"))) {
		t.Errorf("the history then is %q", said)
	}
}

// Reasoning has its fold, whichever way Hermes sends it.
func (h *house) reasoningIsFolded(t *testing.T) {
	for name, thought := range map[string]string{"g0-v0.8.0/think_tags": "secret plan", "g4-transcribed/reasoning": "First I think about it"} {
		h.open("hermes-agent")
		h.ask("play " + name)
		m, raw := h.ended()
		if m.Content != "Answer 42" || m.text("message") != "Answer 42" || m.text("reasoning") != thought || m.Error != nil {
			t.Errorf("%s: stored is %s", name, raw)
		}
		h.Wait(shows("Answer 42"))
		const fold = `.chat-assistant #response-content-container button[aria-expanded]`
		if got := h.Text(fold); !strings.HasPrefix(got, "Thought for") || browser.Eval[bool](h.Tab, saysBeside(thought)) {
			t.Errorf("%s: the fold says %q, or is open", name, got)
		}
		h.Click(fold)
		h.Wait(fmt.Sprintf(`[...document.querySelectorAll("#response-content-container *")].some((e) => e.innerText?.trim() === %q && e.offsetHeight > 15)`, thought))
		h.Picture("reasoning " + strings.ReplaceAll(name, "/", " "))
	}
}

// Keepalives, which are chunks with an empty delta, leave no trace.
func (h *house) keepalivesAreNotSeen(t *testing.T) {
	h.open("keepalive")
	h.ask("slow g0-v0.8.0/one_tool")
	m, _ := h.ended()
	h.checkGood(t, m, "one_tool")
	if len(m.StatusHistory) != 2 {
		t.Errorf("stored status lines: %+v", m.StatusHistory)
	}
}

// The stop button ends the agent's run, as it does straight to Hermes.
func (h *house) stopReachesHermes(t *testing.T) {
	for model, content := range map[string]string{"hermes-agent": "Let me check.", "direct": "Let me check.\n`💻 ls -la`"} {
		h.open(model)
		h.ask("hold g0-v0.8.0/one_tool")
		h.Wait(lastAnswer + `?.innerText.includes("ls -la")`)
		h.Click(`[aria-label="Stop"]`)
		h.agents[model].abandoned()
		if m, _ := h.ended(); strings.TrimSpace(m.Content) != content {
			t.Errorf("stored is %q, want %q", m.Content, content)
		}
	}
}

// A connection can carry headers: one that overrides the form of tool events,
// and one that keeps a chat with its agent.
func (h *house) headersOfConnection(t *testing.T) {
	h.open("headers")
	h.ask("play g0-v0.8.0/one_tool")
	m, _ := h.ended()
	h.checkGood(t, m, "one_tool")
	if h.hasStatusLine() || len(m.StatusHistory) > 0 {
		t.Error("there is a status line")
	}
	if got, want := h.agents["headers"].last().header.Get("X-Chat-Id"), h.chatID(); got != want {
		t.Errorf("the chat is %q, want %q", got, want)
	}
}

// What docs/open-webui.md shows: a tool that runs, and one that has crashed.
func (h *house) picturesOfAChat(t *testing.T) {
	a := h.agents["hermes-agent"]
	h.open("hermes-agent")
	h.ask("Which files are here?")
	a.proceed()
	h.ended()
	h.ask("Do the tests pass?")
	h.Wait(statusLine("💻 make test", true))
	h.Wait(shows("Running."))
	h.Picture("open webui status")
	a.proceed()
	h.Wait(saysBeside("gave no reason"))
	h.ended()
	h.Wait(`!document.querySelector("[data-sonner-toast]")`)
	h.Picture("open webui error")
}

// With the defaults a first message is four runs of the agent, and each has
// Open WebUI's own tools in its request. The settings of docs/open-webui.md end
// both.
func (h *house) settingsThatSaveRuns(t *testing.T) {
	a := h.agents["default"]
	before := a.askedAside()
	h.open("default")
	h.ask("play g0-v0.8.0/plain")
	h.ended()
	for deadline := time.Now().Add(harness.Patience); a.askedAside() < before+3 && time.Now().Before(deadline); {
		time.Sleep(50 * time.Millisecond)
	}
	if got := a.askedAside() - before; got != 3 || len(a.last().Tools) == 0 {
		t.Errorf("%d requests aside and %d tools, want 3 and some", got, len(a.last().Tools))
	}

	h.configure("/api/v1/tasks/config", func(c map[string]any) {
		c["ENABLE_TITLE_GENERATION"], c["ENABLE_TAGS_GENERATION"], c["ENABLE_FOLLOW_UP_GENERATION"] = false, false, false
	})
	h.derive("quiet", "default", `{"capabilities": {"builtin_tools": false}}`, `{}`)
	before = a.askedAside()
	h.open("quiet")
	for range 2 {
		h.ask("play g0-v0.8.0/plain")
		m, _ := h.ended()
		h.checkGood(t, m, "plain")
	}
	if got := a.askedAside() - before; got != 0 || len(a.last().Tools) != 0 {
		t.Errorf("%d requests aside and %d tools, want none", got, len(a.last().Tools))
	}
}

// Where the browser connects by itself ("Direct Connections") messages and
// errors are the same, but Open WebUI shows no status line.
func (h *house) browserConnects(t *testing.T) {
	a := newAgent(t, "browser")
	base, _ := sidecar.Serve(t, a.up, sidecar.Options{"status_line": true})
	h.api("POST", "/api/v1/users/user/settings/update", fmt.Sprintf(
		`{"ui": {"directConnections": {"OPENAI_API_BASE_URLS": [%q], "OPENAI_API_KEYS": ["key"], "OPENAI_API_CONFIGS": {"0": {"enable": true}}}}}`, base+"/v1"))
	h.open("browser")
	h.ask("play g0-v0.8.0/one_tool")
	m, _ := h.ended()
	h.checkGood(t, m, "one_tool")
	if h.hasStatusLine() || len(m.StatusHistory) > 0 {
		t.Error("there is a status line: docs/open-webui.md says that there is none")
	}
	if got := a.last().header.Get("Origin"); got != h.base {
		t.Errorf("the request is from %q, not from the page", got)
	}
	h.open("browser")
	h.ask("play g0-v0.8.0/crash_in_tool")
	h.Wait(saysBeside("the agent failed before its answer was complete"))
	if m, raw := h.ended(); m.Error == nil || m.Content != "Running." {
		t.Errorf("no error is stored, or another text: %s", raw)
	}
}
