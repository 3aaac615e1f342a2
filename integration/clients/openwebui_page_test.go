package clients

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/browser"
)

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
	const notes = `[...document.querySelectorAll("button")].find((b) => b.innerText.includes("Okay, Let"))`
	w.Wait(notes) // what is new in this version
	browser.Eval[any](w.Tab, notes+`.click()`)
	w.Wait(`!` + notes)
	return w
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
func (w *webui) ended() (message, string) {
	w.T.Helper()
	for deadline := time.Now().Add(harness.Patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if m, raw := w.stored(); m.Role == "assistant" && m.Done && m.ID != w.before {
			if m.Model != w.model {
				w.T.Fatalf("the answer is that of %q: %s is not to be had", m.Model, w.model)
			}
			return m, raw
		}
	}
	_, raw := w.stored()
	w.T.Fatalf("the answer never is done: %s", raw)
	return message{}, ""
}

// api calls Open WebUI as the page does.
func (w *webui) api(method, path, body string) string {
	w.T.Helper()
	return browser.Eval[string](w.Tab, fmt.Sprintf(`fetch(%q, {method: %q, headers: {"Authorization": "Bearer " + localStorage.token, "Content-Type": "application/json"}, body: %q || undefined})
		.then((r) => r.text())`, path, method, body))
}
