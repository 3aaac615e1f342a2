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
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
)

// TestOpenWebUICards drives a real Open WebUI that draws tools as cards.
func TestOpenWebUICards(t *testing.T) {
	h := newHouse(t,
		connection{model: "hermes-agent", options: sidecar.Options{}},
		connection{model: "no status", options: sidecar.Options{"status_line": false}},
		connection{model: "unnamed", options: sidecar.Options{"progress": "unnamed"}},
		connection{model: "bare", options: sidecar.Options{"progress": "bare"}},
		connection{model: "kept", options: sidecar.Options{"history": "keep"}},
		connection{model: "without", options: sidecar.Options{"cards": false}},
	)
	h.scene(t, "tools", h.toolsAreCards)
	h.scene(t, "running", h.cardWhileToolRuns)
	h.scene(t, "labels", h.cardNamesAreText)
	h.scene(t, "crash", h.interruptedCard)
	h.scene(t, "history", h.cardsNeverReachHermes)
	h.scene(t, "continue", h.continuedAnswer)
	h.scene(t, "stop", h.stopBesideACard)
	h.scene(t, "status", h.cardWithoutStatusLine)
	h.scene(t, "approval", h.approvalIsStatusLine)
	h.scene(t, "state", h.stateIsStatusLine)
	h.scene(t, "progress", h.cardsInOtherForms)
	h.scene(t, "browser", h.browserConnectsToCards)
}

// drawn is what the last answer shows, from top to bottom: its texts and its
// cards, these with a mark in front: … while a tool runs, then ✓ or ✗.
const drawn = `[...(` + lastAnswer + `?.querySelectorAll("#response-content-container :is(.markdown-prose, [role=button][tabindex])") ?? [])].map((e) => {
	const text = e.innerText.split(/\s+/).join(" ").trim();
	if (e.matches(".markdown-prose")) return text;
	const mark = e.querySelector(".shimmer") ? "…" : e.querySelector(".text-red-500") ? "✗" : e.querySelector(".text-emerald-500") ? "✓" : "?";
	return mark + " " + text;
})`

// draws waits until the last answer shows what is wanted.
func (h *house) draws(want ...string) {
	h.T.Helper()
	harness.Until(h.T, fmt.Sprintf("the answer shows %q", want), func() bool {
		return slices.Equal(browser.Eval[[]string](h.Tab, drawn), want)
	})
}

// checkCards wants each call that is stored to have ended, with one output
// after it, and the answer to have been asked for once.
func (h *house) checkCards(t *testing.T, m message, ask string) {
	t.Helper()
	calls, outputs := map[string]bool{}, map[string]bool{}
	for _, o := range m.Output {
		switch {
		case o.Type == "function_call":
			if calls[o.CallID] || o.Status == "in_progress" {
				t.Errorf("%s: a call is stored that runs, or twice: %+v", ask, m.Output)
			}
			calls[o.CallID] = true
		case o.Type == "function_call_output":
			if !calls[o.CallID] || outputs[o.CallID] {
				t.Errorf("%s: an output is stored without a call, or twice: %+v", ask, m.Output)
			}
			outputs[o.CallID] = true
		case strings.Contains(o.Type, "call"):
			t.Errorf("%s: stored is %+v", ask, m.Output)
		}
	}
	if len(calls) != len(outputs) {
		t.Errorf("%s: %d calls and %d outputs are stored", ask, len(calls), len(outputs))
	}
	if n := h.agents[h.model].asked(ask); n != 1 {
		t.Errorf("%s was asked %d times", ask, n)
	}
}

// Tools are cards between the texts, in order, of every generation of Hermes;
// tools with no text between them share a row. They are the same when the page
// is read again.
func (h *house) toolsAreCards(t *testing.T) {
	const one, three = "✓ View Result from 💻 ls -la", "✓ Explored 📖 a.go, 🔎 func main, 🔍 golang sse"
	const search = "✓ Explored 🔍 caddy sse proxy, 📄 https://example.com/a"
	for generation, file := range map[string]string{
		"g0-v0.8.0": "/etc/hostname", "g1-v0.9.0": "/etc/hostname", "g2-v0.13.0": "/etc/hostname", "g3-v0.20.3": "hostname", "g4-transcribed": "hostname",
	} {
		for scenario, want := range map[string][]string{
			"one_tool":       {"Let me check.", one, "There are 3 files."},
			"parallel_tools": {"Looking at three things.", three, "All three done."},
			"seq_tools":      {search, "Reading the file now.", "✓ Explored 📖 " + file + ", ✍️ out.txt", "Done."},
			"tool_first":     {"✓ View Result from 💻 date", "It is Monday."},
		} {
			h.scene(t, generation+" "+scenario, func(t *testing.T) {
				h.open("hermes-agent")
				ask := "play " + generation + "/" + scenario
				before := h.agents["hermes-agent"].asked(ask)
				h.ask(ask)
				m, _ := h.ended()
				h.draws(want...)
				h.checkCards(t, m, ask)
				if before != 0 || m.Error != nil || strings.Contains(m.Content, "💻") || len(m.StatusHistory) != 0 {
					t.Errorf("stored is %+v", m)
				}
				h.Do(chromedp.Reload())
				h.draws(want...)
			})
		}
	}
}

// While a tool runs its card says so, also on a page that is opened then. It
// unfolds to what was called and what became of it.
func (h *house) cardWhileToolRuns(t *testing.T) {
	for _, generation := range []string{"g0-v0.8.0", "g3-v0.20.3"} {
		h.open("hermes-agent")
		h.ask("hold " + generation + "/one_tool")
		h.draws("Let me check.", "… Preparing 💻 ls -la...")
		h.chatID()
		h.Do(chromedp.Reload())
		h.draws("Let me check.", "… Preparing 💻 ls -la...")
		h.agents["hermes-agent"].proceed()
		m, _ := h.ended()
		h.draws("Let me check.", "✓ View Result from 💻 ls -la", "There are 3 files.")
		h.checkCards(t, m, "hold "+generation+"/one_tool")
		h.Click(`#response-content-container [role=button][tabindex]`)
		h.Wait(saysBeside("completed"))
		if !browser.Eval[bool](h.Tab, saysBeside("label")) {
			t.Error("the card does not unfold to its arguments")
		}
		h.Picture("card unfolded " + generation)
	}
}

// A label is plain text on one line, whatever is in it.
func (h *house) cardNamesAreText(t *testing.T) {
	m, raw := h.answer("hermes-agent", "play g0-v0.8.0/labels")
	h.checkCards(t, m, "play g0-v0.8.0/labels")
	for _, label := range []string{"`date`", "``x``", `<b>&amp;</b>`, `\back\slash`, "日本語 🎉"} {
		if !slices.ContainsFunc(m.Output, func(o item) bool { return strings.Contains(o.Name, label) }) {
			t.Errorf("%s is in no card's name: %s", label, raw)
		}
	}
	h.Wait(lastAnswer + `?.querySelector("[role=button][tabindex]")`)
	if n := h.Count(`.chat-assistant [role=button][tabindex] :is(b, code, a, p)`); n != 0 {
		t.Errorf("%d elements have been made of labels", n)
	}
	h.Click(`.chat-assistant [role=button][tabindex]`)
	h.Picture("card labels")
}

// A tool that its agent's end interrupts has a cross, beside the error, and has
// it still when the page is read again. So has the row of a group.
func (h *house) interruptedCard(t *testing.T) {
	for _, test := range []struct{ ask, text, card, says string }{
		{"play g0-v0.8.0/crash_in_tool", "Running.", "✗ View Result from 💻 make test", "the agent failed before its answer was complete"},
		{"play g3-v0.20.3/crash_in_tool", "Running.", "✗ View Result from 💻 make test", "boom in tool"},
		{"kill g0-v0.8.0/one_tool", "Let me check.", "✗ View Result from 💻 ls -la", "the connection to the agent was lost"},
		{"kill g3-v0.20.3/one_tool", "Let me check.", "✗ View Result from 💻 ls -la", "the connection to the agent was lost"},
	} {
		h.scene(t, test.ask, func(t *testing.T) {
			h.open("hermes-agent")
			h.ask(test.ask)
			if strings.HasPrefix(test.ask, "kill") {
				h.Wait(drawn + `.at(-1)?.startsWith("…")`)
				h.agents["hermes-agent"].proceed()
			}
			h.Wait(saysBeside(test.says))
			m, raw := h.ended()
			h.draws(test.text, test.card)
			h.checkCards(t, m, test.ask)
			if m.Error == nil {
				t.Errorf("no error is stored: %s", raw)
			}
			h.Do(chromedp.Reload())
			h.draws(test.text, test.card)
			h.Wait(saysBeside(test.says))
		})
	}
}

// longLabel is the label of a tool in a record, where it is longer than a card shows.
var longLabel = regexp.MustCompile(`x{100,}…?\\"( \(cut after \d+ bytes\))?`)

// What the next request says is what it says without cards: no tool messages,
// and one message for one answer, with its texts as they were, and the same records. Where the
// sidecar keeps the history, Open WebUI does send the cards, as calls with the
// names of Hermes' tools.
func (h *house) cardsNeverReachHermes(t *testing.T) {
	asks := []string{
		"play g0-v0.8.0/one_tool", "play g3-v0.20.3/seq_tools", "play g0-v0.8.0/parallel_tools", "play g4-transcribed/tool_first",
		"play g0-v0.8.0/think_tags", "play g4-transcribed/reasoning_tools", "play g3-v0.20.3/labels", "play g3-v0.20.3/slow_tool",
		"play g0-v0.8.0/crash_in_tool", "play g3-v0.20.3/crash_immediate", "kill g3-v0.20.3/one_tool", "play g0-v0.8.0/plain",
	}
	history := map[string]string{}
	for _, model := range []string{"hermes-agent", "without", "kept"} {
		h.open(model)
		before := h.agents[model].count()
		for _, ask := range asks {
			h.ask(ask)
			if strings.HasPrefix(ask, "kill") {
				h.agents[model].proceed()
			}
			h.ended()
		}
		if n := h.agents[model].count() - before; n != len(asks) {
			t.Errorf("%s: %d questions are %d requests", model, len(asks), n)
		}
		// A card shows less of a long label than the sidecar remembers for its record.
		history[model] = longLabel.ReplaceAllString(h.agents[model].last().history(t), `x…\"`)
	}
	if history["hermes-agent"] != history["without"] {
		t.Errorf("with cards Hermes got\n%s\nwithout them\n%s", history["hermes-agent"], history["without"])
	}
	if strings.Contains(history["without"], `"tool`) || !strings.Contains(history["kept"], `"role":"tool"`) || !strings.Contains(history["kept"], `"name":"terminal"`) {
		t.Errorf("the control is none: without cards Hermes got\n%s\nand with history keep\n%s", history["without"], history["kept"])
	}
}

// An answer goes on where it ended, which is a card or a text.
func (h *house) continuedAnswer(t *testing.T) {
	const again = `[...document.querySelectorAll('[aria-label="Continue Response"]')].at(-1)`
	for _, ask := range []string{"play g0-v0.8.0/one_tool", "play g3-v0.20.3/crash_in_tool"} {
		history := map[string]string{}
		for _, model := range []string{"hermes-agent", "without"} {
			h.answer(model, ask)
			a := h.agents[model]
			before := a.count()
			h.Wait(again)
			browser.Eval[any](h.Tab, again+`.click()`)
			a.awaitCount(before + 1)
			h.ended()
			history[model] = a.last().history(t)
		}
		if history["hermes-agent"] != history["without"] || !strings.Contains(history["hermes-agent"], `"assistant"`) {
			t.Errorf("%s: with cards Hermes got\n%s\nwithout them\n%s", ask, history["hermes-agent"], history["without"])
		}
	}
}

// The stop button ends the run beside a card, nothing is asked again, and the
// next request is as it should be.
func (h *house) stopBesideACard(t *testing.T) {
	a := h.agents["hermes-agent"]
	h.open("hermes-agent")
	before := a.count()
	h.ask("hold g0-v0.8.0/one_tool")
	h.draws("Let me check.", "… Preparing 💻 ls -la...")
	h.Click(`[aria-label="Stop"]`)
	a.abandoned()
	h.ended()
	h.draws("Let me check.", "✓ View Result from 💻 ls -la")
	h.ask("play g0-v0.8.0/plain")
	h.ended()
	if said := a.last().said(); !slices.Equal(said, []string{"Let me check."}) || strings.Contains(a.last().history(t), `"tool`) {
		t.Errorf("the history is %s", a.last().history(t))
	}
	if n := a.count() - before; n != 2 {
		t.Errorf("2 questions are %d requests", n)
	}
}

// A tool that has a card has no status line as well: both say the same.
func (h *house) cardWithoutStatusLine(t *testing.T) {
	h.open("hermes-agent")
	h.ask("hold g1-v0.9.0/one_tool")
	h.draws("Let me check.", "… Preparing 💻 ls -la...")
	if h.hasStatusLine() {
		t.Error("the tool that runs has a status line")
	}
	h.agents["hermes-agent"].proceed()
	m, _ := h.ended()
	h.draws("Let me check.", "✓ View Result from 💻 ls -la", "There are 3 files.")
	h.checkCards(t, m, "hold g1-v0.9.0/one_tool")
	if h.hasStatusLine() || len(m.StatusHistory) != 0 {
		t.Errorf("stored status lines: %+v", m.StatusHistory)
	}
}

// The unnamed form also has cards. A form that is no chunk has none, and does no
// harm.
func (h *house) cardsInOtherForms(t *testing.T) {
	for model, want := range map[string][]string{
		"unnamed": {"Let me check.", "✓ View Result from 💻 ls -la", "There are 3 files."},
		"bare":    {"Let me check. There are 3 files."},
	} {
		m, _ := h.answer(model, "play g3-v0.20.3/one_tool")
		h.draws(want...)
		h.checkCards(t, m, "play g3-v0.20.3/one_tool")
	}
}

// Where the browser connects by itself ("Direct Connections") there are
// also cards.
func (h *house) browserConnectsToCards(t *testing.T) {
	a := newAgent(t, "browser")
	h.agents["browser"] = a
	base, _ := sidecar.Serve(t, a.up, sidecar.Options{})
	h.api("POST", "/api/v1/users/user/settings/update", fmt.Sprintf(
		`{"ui": {"directConnections": {"OPENAI_API_BASE_URLS": [%q], "OPENAI_API_KEYS": ["key"], "OPENAI_API_CONFIGS": {"0": {"enable": true}}}}}`, base+"/v1"))
	m, _ := h.answer("browser", "play g0-v0.8.0/one_tool")
	h.draws("Let me check.", "✓ View Result from 💻 ls -la", "There are 3 files.")
	h.checkCards(t, m, "play g0-v0.8.0/one_tool")
	h.ask("play g0-v0.8.0/plain")
	h.ended()
	if said := a.last().said(); !slices.Equal(said, []string{storedModern(t, "one_tool")}) {
		t.Errorf("the history is %q", said)
	}
}

// history is the request's messages as JSON, one a line.
func (q turn) history(t testing.TB) string {
	t.Helper()
	var body struct{ Messages []any }
	if err := json.Unmarshal(q.body, &body); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	enc := json.NewEncoder(&all)
	enc.SetEscapeHTML(false)
	for _, m := range body.Messages {
		if err := enc.Encode(m); err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}
