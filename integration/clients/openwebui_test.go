package clients

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

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
		connection{model: "hermes-agent", options: sidecar.Options{"cards": false, "imitations": "strip"}},
		connection{model: "direct"},
		connection{model: "default", options: sidecar.Options{}},
		connection{model: "plain", options: sidecar.Options{"cards": false, "status_line": false}},
		connection{model: "bare", options: sidecar.Options{"progress": "bare"}},
		connection{model: "unnamed", options: sidecar.Options{"cards": false, "progress": "unnamed"}},
		connection{model: "comment", options: sidecar.Options{"progress": "comment"}},
		connection{model: "off", options: sidecar.Options{"progress": "off"}},
		connection{model: "inline", options: sidecar.Options{"error_finish": "inline"}},
		connection{model: "keepalive", options: sidecar.Options{"cards": false, "keepalive": "20ms"}},
		connection{model: "refused", options: sidecar.Options{}},
		connection{model: "refused-direct"},
		connection{model: "old"},
		connection{model: "headers", options: sidecar.Options{},
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
	h.scene(t, "asides", h.settingsThatSaveRuns)
	h.scene(t, "browser", h.browserConnects)
}

// storedModern is what Hermes 0.20 says in a scenario, as Open WebUI stores it:
// without white space at both ends.
func storedModern(t testing.TB, scenario string) string {
	t.Helper()
	return strings.TrimSpace(strict.Decode(t, string(hermes.Recorded(t, "g3-v0.20.3/"+scenario).Body)).Content)
}

// marked is in whatever holds a marker of the recording one_tool, also in JSON.
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
	if want := storedModern(t, scenario); m.said() != want || !m.hasCards() && m.text("message") != want {
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
		m, _ := h.answer("hermes-agent", "play g0-v0.8.0/"+scenario)
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
		m, _ := h.answer("hermes-agent", "play g0-v0.8.0/"+scenario)
		h.checkGood(t, m, scenario)
	}
	if m, _ := h.answer("hermes-agent", "play g0-v0.8.0/model_imitates"); m.Content != "Sure\ndone" || len(m.StatusHistory) != 0 {
		t.Errorf("an imitation: stored is %q, and %+v", m.Content, m.StatusHistory)
	}
}

// No form of tool events harms Open WebUI. The two with the members of a chunk
// bring the status line.
func (h *house) progressForms(t *testing.T) {
	for _, test := range []struct {
		model string
		line  bool
	}{{"plain", false}, {"bare", false}, {"unnamed", true}, {"comment", false}, {"off", false}} {
		for _, generation := range []string{"g0-v0.8.0", "g3-v0.20.3"} {
			m, _ := h.answer(test.model, "play "+generation+"/one_tool")
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
	h.answer("old", "play g0-v0.8.0/one_tool")
	chat := h.chatID()
	h.ask("play g0-v0.8.0/plain")
	h.ended()
	if said := old.last().said(); len(said) != 1 || !strings.Contains(said[0], marked) {
		t.Errorf("straight to Hermes the history is %q", said)
	}

	h.move("old", sidecar.Options{"cards": false})
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
		m, raw := h.answer("hermes-agent", "play "+name)
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
	m, _ := h.answer("keepalive", "slow g0-v0.8.0/one_tool")
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
	m, _ := h.answer("headers", "play g0-v0.8.0/one_tool")
	h.checkGood(t, m, "one_tool")
	if h.hasStatusLine() || len(m.StatusHistory) > 0 {
		t.Error("there is a status line")
	}
	if got, want := h.agents["headers"].last().header.Get("X-Chat-Id"), h.chatID(); got != want {
		t.Errorf("the chat is %q, want %q", got, want)
	}
}

// With the defaults a first message is four runs of the agent, and each has
// Open WebUI's own tools in its request. The settings of docs/open-webui.md end
// both.
func (h *house) settingsThatSaveRuns(t *testing.T) {
	a := h.agents["default"]
	before := a.askedAside()
	h.answer("default", "play g0-v0.8.0/plain")
	harness.Until(t, "titles and the like are asked for", func() bool { return a.askedAside() >= before+3 })
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
	base, _ := sidecar.Serve(t, a.up, sidecar.Options{"cards": false})
	h.api("POST", "/api/v1/users/user/settings/update", fmt.Sprintf(
		`{"ui": {"directConnections": {"OPENAI_API_BASE_URLS": [%q], "OPENAI_API_KEYS": ["key"], "OPENAI_API_CONFIGS": {"0": {"enable": true}}}}}`, base+"/v1"))
	m, _ := h.answer("browser", "play g0-v0.8.0/one_tool")
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

// A webui is a browser in front of an Open WebUI.
type webui struct {
	*browser.Tab
	base   string
	model  string // of the chat
	before string // id of the last message before the latest was sent, "" in a new chat
}

// newWebUI opens the page for the first time, as the only user there is.
func newWebUI(t testing.TB, base string) *webui {
	w := &webui{Tab: browser.New(t, 1000, 640), base: base}
	w.Do(chromedp.Navigate(base))
	w.readNotes()
	return w
}

// readNotes closes what the page says to one who administers it for the first time.
func (w *webui) readNotes() {
	const notes = `[...document.querySelectorAll("button")].find((b) => b.innerText.includes("Okay, Let"))`
	w.Wait(notes) // what is new in this version
	browser.Eval[any](w.Tab, notes+`.click()`)
	w.Wait(`!` + notes)
}

// open begins a chat with a model.
func (w *webui) open(model string) {
	w.T.Helper()
	w.model = model
	w.Do(chromedp.Navigate(w.base + "/?models=" + model))
	w.Wait(`document.querySelector("#chat-input")`)
}

// ask types a message and sends it.
func (w *webui) ask(message string) {
	w.T.Helper()
	w.Wait(`document.querySelector("#chat-input")`)
	w.before = ""
	const latest = lastAnswer + `?.closest("[id^=message-]").id`
	last := browser.Eval[string](w.Tab, latest+` ?? ""`)
	if last != "" {
		m, _ := w.stored()
		w.before = m.ID
	}
	w.Click("#chat-input")
	w.Do(chromedp.KeyEvent(message))
	w.Wait(fmt.Sprintf(`document.querySelector("#chat-input").innerText.trim() === %q`, message))
	w.Click("#send-message-button")
	w.Wait(fmt.Sprintf(`(%s ?? %q) !== %q`, latest, last, last)) // a page has the latest answers alone
}

// answer begins a chat with a model and a message, and waits for the end of the answer.
func (w *webui) answer(model, ask string) (message, string) {
	w.T.Helper()
	w.open(model)
	w.ask(ask)
	return w.ended()
}

// regenerate has the last answer, which is the message m, made again.
func (w *webui) regenerate(m message) {
	w.T.Helper()
	w.before = m.ID
	const again = `[...document.getElementsByClassName("regenerate-response-button")].at(-1)`
	w.Wait(again)
	browser.Eval[any](w.Tab, again+`.click()`)
}

// lastAnswer is the element of the last answer. There is none for a moment when
// a chat gets its URL.
const lastAnswer = `[...document.querySelectorAll(".chat-assistant")].at(-1)`

// shownText is the text of the last answer, as a reader sees it, with white
// space collapsed.
const shownText = `[...(` + lastAnswer + `?.querySelectorAll(".markdown-prose") ?? [])].map((e) => e.innerText).join("\n").split(/\s+/).join(" ").trim()`

// shows is a condition: the last answer is a text.
func shows(text string) string { return fmt.Sprintf("%s === %q", shownText, text) }

// statusLine is a condition: the line above the last answer has a text, and it
// shimmers, as it does while something runs, or it does not.
func statusLine(text string, running bool) string {
	return fmt.Sprintf(`((line) => line?.innerText.trim() === %q && !!line.querySelector(".shimmer") === %v)(%s?.querySelector(".status-description"))`,
		text, running, lastAnswer)
}

// hasStatusLine reports whether there is one above the last answer.
func (w *webui) hasStatusLine() bool {
	w.T.Helper()
	return browser.Eval[bool](w.Tab, "!!"+lastAnswer+`.querySelector(".status-description")`)
}

// saysBeside is a condition: the last answer has a text beside what the agent
// has said.
func saysBeside(text string) string {
	return fmt.Sprintf(`((copy) => {
		copy?.querySelectorAll(".markdown-prose").forEach((e) => e.remove());
		return !!copy?.textContent.includes(%q);
	})(%s?.cloneNode(true))`, text, lastAnswer)
}

// A message is one that Open WebUI has stored.
type message struct {
	ID            string
	Role, Model   string
	Content       string
	Done          bool
	StatusHistory []struct {
		Description string
		Done        bool
		Hidden      bool
	}
	Error *struct {
		Content json.RawMessage
	}
	Output []item
}

// An item is a part of an answer: a text, a thought, a call of a tool or its
// output.
type item struct {
	Type    string
	CallID  string `json:"call_id"`
	Name    string
	Status  string
	Content []struct{ Text string }
}

// text is what a message of the kind says in its output.
func (m message) text(kind string) string {
	var all strings.Builder
	for _, o := range m.Output {
		for _, c := range o.Content {
			if o.Type == kind {
				all.WriteString(c.Text)
			}
		}
	}
	return all.String()
}

// hasCards reports whether the message has cards.
func (m message) hasCards() bool {
	return slices.ContainsFunc(m.Output, func(o item) bool { return o.Type == "function_call" })
}

// said is the text that Hermes has sent, of answers whose texts stand in paragraphs of their own: beside a
// card, Open WebUI stores one newline for a blank line.
func (m message) said() string {
	if !m.hasCards() {
		return m.Content
	}
	return regexp.MustCompile(`\n+`).ReplaceAllString(strings.TrimSpace(m.Content), "\n\n")
}

// chatID is the id of the chat on the page.
func (w *webui) chatID() string {
	w.T.Helper()
	w.Wait(`location.pathname.startsWith("/c/")`)
	return browser.Eval[string](w.Tab, `location.pathname.split("/").pop()`)
}

// stored is the last message of the chat on the page, in the database. The
// second is all of the chat.
func (w *webui) stored() (message, string) {
	w.T.Helper()
	raw := w.api("GET", "/api/v1/chats/"+w.chatID(), "")
	var c struct {
		Chat struct {
			History struct {
				CurrentID string `json:"currentId"`
				Messages  map[string]message
			}
		}
	}
	if err := json.Unmarshal([]byte(raw), &c); err != nil {
		w.T.Fatalf("%v in %s", err, harness.Clip(raw))
	}
	return c.Chat.History.Messages[c.Chat.History.CurrentID], raw
}

// ended waits until the answer to the latest message is stored as one that is
// done.
func (w *webui) ended() (m message, raw string) {
	w.T.Helper()
	harness.Until(w.T, "the answer is done", func() bool {
		m, raw = w.stored()
		return m.Role == "assistant" && m.Done && m.ID != w.before
	})
	if m.Model != w.model {
		w.T.Fatalf("the answer is that of %q: %s is not to be had", m.Model, w.model)
	}
	return m, raw
}

// api calls Open WebUI as the page does.
func (w *webui) api(method, path, body string) string {
	w.T.Helper()
	return browser.Eval[string](w.Tab, fmt.Sprintf(`fetch(%q, {method: %q, headers: {"Authorization": "Bearer " + localStorage.token, "Content-Type": "application/json"}, body: %q || undefined})
		.then((r) => r.text())`, path, method, body))
}

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
	if m, raw := h.answer("whole", "play g0-v0.8.0/nonstream.one_tool"); m.Content == "" || m.Error != nil {
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
	a := h.agents["hermes-agent"]
	h.open("hermes-agent")
	h.ask("hold " + approval)
	h.draws("Cleaning up.", "… Preparing 💻 ls -la...")
	a.proceed()
	h.Wait(statusLine("Approval needed: rm -rf build", true))
	h.draws("Cleaning up.", "… Preparing 💻 ls -la...")
	h.Picture("open webui approval")
	a.proceed()
	m, raw := h.ended()
	h.draws("Cleaning up.", "✓ View Result from 💻 ls -la", "Done.")
	h.checkCards(t, m, "hold "+approval)
	if s := m.StatusHistory; m.Error != nil || h.hasStatusLine() || len(s) != 2 || !s[1].Hidden {
		t.Errorf("an error is stored, or the approval still waits: %s", raw)
	}

	// Without a status line the approval is not seen, and does no harm.
	m, _ = h.answer("no status", "play "+approval)
	h.draws("Cleaning up.", "✓ View Result from 💻 ls -la", "Done.")
	if m.Error != nil || h.hasStatusLine() {
		t.Errorf("an error is stored, or there is a status line: %+v", m)
	}
}

// What Hermes says of its state is said above the message.
func (h *house) stateIsStatusLine(t *testing.T) {
	m, raw := h.answer("hermes-agent", "play g4-transcribed/status_wait")
	h.Wait(statusLine("⏳ Retrying in 2.0s (attempt 1/3)...", false))
	h.draws("ok")
	if m.Error != nil || m.Content != "ok" || len(m.StatusHistory) != 1 {
		t.Errorf("stored is %s", raw)
	}
	if browser.Eval[bool](h.Tab, saysBeside("lifecycle")) {
		t.Error("more than the text is said")
	}
}

// Open WebUI says who asks and in which chat, and a header of the connection tells a chat
// from titles and tags, as docs/recipes/who-asks.md has it.
func TestOpenWebUIWhoAsks(t *testing.T) {
	t.Setenv("ENABLE_FORWARD_USER_INFO_HEADERS", "true")
	h := newHouse(t, connection{model: "hermes-agent", options: sidecar.Options{}, headers: `{"X-OpenWebUI-Task": "chat{{TASK}}"}`})
	a := h.agents["hermes-agent"]
	h.answer("hermes-agent", "play g0-v0.8.0/plain")
	harness.Until(t, "titles and the like are asked for", func() bool { return a.askedAside() >= 3 })
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
