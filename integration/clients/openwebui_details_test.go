package clients

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/browser"
)

// TestOpenWebUIDetails has a user of a real Open WebUI look at what a real Hermes did, and go on
// with the chat (contract section 8).
func TestOpenWebUIDetails(t *testing.T) {
	program := openWebUI(t)
	agent, version := installHermes(t)
	t.Logf("hermes-agent %s", version)
	names := map[string]string{
		"cards on\n\t\tmemory on":      "with",
		"cards on\n\t\tmemory results": "results",
	}
	lab := newDetailsLab(t, agent, slices.Sorted(maps.Keys(names))...)
	if !lab.live {
		t.Skipf("Hermes %s stores a turn when it ends", version)
	}
	var urls, configs []string
	for site, base := range lab.sites {
		configs = append(configs, fmt.Sprintf(`"%d": {"enable": true, "prefix_id": %q}`, len(urls), names[site]))
		urls = append(urls, base+"/v1")
	}
	base := startOpenWebUI(t, program, urls, "OPENAI_API_KEYS="+strings.Repeat(hermesKey+";", len(urls)-1)+hermesKey,
		"OPENAI_API_CONFIGS={"+strings.Join(configs, ", ")+"}",
		"ENABLE_TITLE_GENERATION=false", "ENABLE_TAGS_GENERATION=false", "ENABLE_FOLLOW_UP_GENERATION=false")
	h := &detailsHouse{house: &house{webui: newWebUI(t, base)}, lab: lab}
	h.scene(t, "unfolds", h.unfolds)
	h.scene(t, "failed", h.failedIsRed)
	h.scene(t, "parallel", h.parallelUnfold)
	h.scene(t, "text", h.resultsAreText)
	h.scene(t, "remembers", h.remembers)
	h.scene(t, "edited", h.editedChat)
	h.scene(t, "regenerated", h.regeneratedChat)
}

// A detailsHouse is a real Open WebUI in front of a real Hermes.
type detailsHouse struct {
	*house
	lab *detailsLab
}

// The models of the sites.
const withMemory, withResults = "with.hermes-agent", "results.hermes-agent"

// unfold opens each row of the last answer, and the rows in it.
func (h *detailsHouse) unfold() {
	h.T.Helper()
	h.Wait(lastAnswer + `?.querySelector("[role=button][tabindex]")`)
	browser.Eval[any](h.Tab, `new Promise(async (done) => {
		const seen = new Set();
		for (let next; (next = [...`+lastAnswer+`.querySelectorAll("#response-content-container [role=button][tabindex]")].find((e) => !seen.has(e)));) {
			seen.add(next);
			next.click();
			await new Promise((r) => setTimeout(r, 300));
		}
		done();
	})`)
}

// tellsAll wants the last answer to say all texts when it is unfolded, also when the page is read again.
func (h *detailsHouse) tellsAll(texts ...string) {
	h.T.Helper()
	for _, again := range []bool{false, true} {
		if again {
			h.Do(chromedp.Reload())
		}
		h.unfold()
		for _, text := range texts {
			h.Wait(saysBeside(text))
		}
	}
}

// ends waits for the end of an answer without an error.
func (h *detailsHouse) ends(t *testing.T) (m message, raw string) {
	t.Helper()
	m, raw = h.ended()
	if m.Error != nil {
		t.Errorf("stored is %s", raw)
	}
	return m, raw
}

// A row unfolds to what the tool was given, and what it returned.
func (h *detailsHouse) unfolds(t *testing.T) {
	s, given, returned := h.lab.oneTool(t, "unfolds")
	h.open(withMemory)
	h.ask(h.lab.question(s))
	h.ends(t)
	h.Wait(drawn + `[1]?.startsWith("✓ View Result from 💻 ")`)
	h.tellsAll(`cat `+given, returned, "exit_code")
	h.Picture("details unfolded")
}

// A command that fails is red, and goes on being so.
func (h *detailsHouse) failedIsRed(t *testing.T) {
	s := hermesScene{name: "failed", turns: []modelTurn{{says: []string{"Let me see."}, calls: terminal("ls no-such-directory")}, {says: []string{"It is not there."}}}}
	h.lab.model.write(s.prompt(), s.turns)
	h.open(withMemory)
	h.ask(h.lab.question(s))
	h.ends(t)
	h.Wait(drawn + `[1]?.startsWith("✗ View Result from 💻 ")`)
	h.tellsAll("ls no-such-directory", "No such file")
	h.Wait(drawn + `[1]?.startsWith("✗ View Result from 💻 ")`)
	h.Picture("details failed")
}

// Each of several tools has its own.
func (h *detailsHouse) parallelUnfold(t *testing.T) {
	s := hermesScene{name: "in parallel", turns: []modelTurn{{says: []string{"At once."}}, {says: []string{"That is all."}}}}
	var all []string
	for i := range 3 {
		_, given, returned := h.lab.oneTool(t, fmt.Sprintf("part %d", i))
		s.turns[0].calls = append(s.turns[0].calls, modelCall{"read_file", `{"path": "` + given + `"}`})
		all = append(all, given, returned)
	}
	h.lab.model.write(s.prompt(), s.turns)
	h.open(withMemory)
	h.ask(h.lab.question(s))
	h.ends(t)
	h.Wait(drawn + `[1]?.startsWith("✓ Explored ")`)
	h.tellsAll(all...)
	h.Picture("details parallel")
}

// Nothing that a tool was given or returned is more than text on the page.
func (h *detailsHouse) resultsAreText(t *testing.T) {
	const hostile = "\"}</details><img src=x onerror=\"document.title='it ran'\">\n```\n# A heading\n[a link](javascript:alert(1)) | $x$ | <b>bold</b>\n</details>\n"
	s, given, returned := h.lab.oneTool(t, "text")
	harness.WriteFile(t, filepath.Join(h.lab.work, given), []byte(hostile+returned))
	h.open(withMemory)
	h.ask(h.lab.question(s))
	m, _ := h.ends(t)
	h.tellsAll(returned)
	if n := h.Count(`.chat-assistant #response-content-container :is(img, h1, b, a[href^=javascript])`); n != 0 || browser.Eval[string](h.Tab, "document.title") == "it ran" {
		t.Errorf("%d elements are made of a result", n)
	}
	h.Wait(shows("Let me see. That is all."))
	if m.Content != "Let me see.\n\nThat is all." && strings.Join(strings.Fields(m.Content), " ") != "Let me see. That is all." {
		t.Errorf("stored is the text %q", m.Content)
	}
	h.Picture("details text")
}

// heardOf wants the model to have been sent, with a question, words so often, and in the user's messages.
func (h *detailsHouse) heardOf(t *testing.T, question string, words map[string]int) {
	t.Helper()
	r := h.lab.heard(t, question)
	for word, n := range words {
		if r.count(word) != n || strings.Count(r.users, word) != n {
			t.Errorf("%s is there %d times, %d in the user's messages, want %d: %s", word, r.count(word), strings.Count(r.users, word), n, r.messages[1:])
		}
	}
}

// In the next turn the model knows what the cards show, once.
func (h *detailsHouse) remembers(t *testing.T) {
	for model, results := range map[string]int{withMemory: 0, withResults: 1} {
		h.open(model)
		words := map[string]int{}
		for i := range 3 {
			s, given, returned := h.lab.oneTool(t, fmt.Sprintf("remembers %d", i))
			question := h.lab.question(s)
			h.ask(question)
			h.ends(t)
			h.heardOf(t, question, words)
			words[given], words[returned] = 1, results
		}
		question := h.lab.next(t)
		h.ask(question)
		h.ends(t)
		h.heardOf(t, question, words)
		if page := browser.Eval[string](h.Tab, `document.querySelector("#messages-container, body").innerText`); !strings.Contains(page, question) || strings.Contains(page, "sidecar") {
			t.Errorf("the user sees a record: %s", page)
		}
	}
}

// What the user has edited is gone, and so is what the agent did for it.
func (h *detailsHouse) editedChat(t *testing.T) {
	s, old, _ := h.lab.oneTool(t, "before the edit")
	h.open(withMemory)
	h.ask(h.lab.question(s))
	m, _ := h.ends(t)
	s, given, _ := h.lab.oneTool(t, "after the edit")
	edited := h.lab.question(s)
	h.before = m.ID
	const pencil = `[...document.querySelectorAll(".edit-user-message-button")].at(-1)`
	h.Wait(pencil)
	browser.Eval[any](h.Tab, pencil+`.click()`)
	const area = `document.querySelector('textarea[id^="message-edit-"]')`
	h.Wait(area)
	browser.Eval[any](h.Tab, fmt.Sprintf(`((e) => { e.value = %q; e.dispatchEvent(new Event("input", {bubbles: true})); })(%s)`, edited, area))
	h.Click("#confirm-edit-message-button")
	h.ends(t)
	question := h.lab.next(t)
	h.ask(question)
	h.ends(t)
	h.heardOf(t, question, map[string]int{old: 0, given: 1})
}

// After Regenerate the record is that of the answer on the page.
func (h *detailsHouse) regeneratedChat(t *testing.T) {
	s, old, _ := h.lab.oneTool(t, "regenerated chat")
	h.open(withMemory)
	h.ask(h.lab.question(s))
	m, _ := h.ends(t)
	_, given, _ := h.lab.oneTool(t, "regenerated chat")
	h.regenerate(m)
	h.ends(t)
	question := h.lab.next(t)
	h.ask(question)
	h.ends(t)
	h.heardOf(t, question, map[string]int{old: 0, given: 1})
}
