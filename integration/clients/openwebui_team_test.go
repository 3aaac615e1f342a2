package clients

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/browser"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/team"
)

// TestOpenWebUITeam has two users of a real Open WebUI that is run as deploy/open-webui has it: its Caddyfile, and its
// variables. Without Open WebUI: TestTeam in integration/deployment.
func TestOpenWebUITeam(t *testing.T) {
	program := openWebUI(t)
	chat, api := harness.FreePort(t), harness.FreePort(t)
	s := newTap(t, "http://"+api)
	h := &teamHouse{way: s, Site: &team.Site{Agent: hermes.New(t, 0), API: "http://" + api, Chat: "http://" + chat}}
	settings := append(composeSettings(t), "WEBUI_AUTH=true", "OPENAI_API_KEYS="+team.WebUIKey, "WEBUI_URL="+h.Chat, "CORS_ALLOW_ORIGIN="+h.Chat)
	webui := startOpenWebUI(t, program, []string{s.url + "/v1"}, settings...)
	sidecar.NewRecipe(t, harness.ReadFile(t, harness.Path("deploy/open-webui/Caddyfile"))).
		With("http://:3000 {", "http://:"+harness.Port(chat)+" {").With(":8643 {", ":"+harness.Port(api)+" {").With(":8644 {", ":"+harness.Port(harness.FreePort(t))+" {").
		Caddy("CHAT_URL="+h.Chat, "OPEN_WEBUI="+strings.TrimPrefix(webui, "http://"), "KEY_OPENWEBUI="+team.WebUIKey, "HERMES_UPSTREAM="+h.Addr, "API_SERVER_KEY="+team.HermesKey)

	h.signUp(t, "", "alice")
	h.alice = h.signIn(t, "alice", true)
	h.signUp(t, browser.Eval[string](h.alice.Tab, "localStorage.token"), "bob")
	h.bob = h.signIn(t, "bob", false)
	for _, scene := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"cards and memory", h.cardsAndMemory},
		{"lost answer", h.lostAnswer},
		{"queue", h.waitTheirTurn},
		{"approval", h.approval},
	} {
		t.Run(scene.name, func(t *testing.T) {
			outside := h.alice.T
			h.alice.T, h.bob.T = t, t
			defer func() { h.alice.T, h.bob.T = outside, outside }()
			scene.run(t)
		})
	}
}

// composeSettings are the variables of Open WebUI in compose.yaml that need no value of the user's.
func composeSettings(t *testing.T) (env []string) {
	t.Helper()
	_, service, _ := strings.Cut(harness.ReadFile(t, harness.Path(filepath.Join("deploy", "open-webui", "compose.yaml"))), "\n  open-webui:\n")
	for _, m := range regexp.MustCompile(`(?m)^      ([A-Z_]+): "(\w+)"$`).FindAllStringSubmatch(service, -1) {
		env = append(env, m[1]+"="+m[2])
	}
	if len(env) < 5 {
		t.Fatalf("compose.yaml has %q", env)
	}
	return env
}

// A teamHouse is a real Open WebUI with users, and a scripted agent.
type teamHouse struct {
	*team.Site
	way        *tap
	alice, bob *house
}

const model = "hermes-agent"

// signUp makes an account: by itself the first one, which administers Open WebUI, others with its token.
func (h *teamHouse) signUp(t *testing.T, admin, name string) {
	t.Helper()
	path := map[bool]string{true: "/api/v1/auths/signup", false: "/api/v1/auths/add"}[admin == ""]
	body, _ := json.Marshal(map[string]string{"name": name, "email": name + "@example.com", "password": "a long password", "role": "user"})
	req, err := http.NewRequest(http.MethodPost, h.Chat+path, strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if admin != "" {
		req.Header.Set("Authorization", "Bearer "+admin)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatalf("%s has no account: %s", name, res.Status)
	}
}

// signIn has a user sign in, in a browser of their own.
func (h *teamHouse) signIn(t *testing.T, name string, admin bool) *house {
	t.Helper()
	w := &webui{Tab: browser.New(t, 1000, 640), base: h.Chat}
	w.Do(chromedp.Navigate(h.Chat))
	for field, text := range map[string]string{"email": name + "@example.com", "password": "a long password"} {
		w.Wait(fmt.Sprintf(`document.querySelector("input#%s")`, field))
		w.Click("input#" + field)
		w.Do(chromedp.KeyEvent(text))
	}
	w.Click(`button[type="submit"]`)
	if admin {
		w.readNotes()
	}
	w.Wait(`document.querySelector("#chat-input")`)
	return &house{webui: w}
}

// id is the user's, as Open WebUI says it.
func (h *teamHouse) id(w *house) team.User {
	var who struct{ ID string }
	if err := json.Unmarshal([]byte(w.api("GET", "/api/v1/auths/", "")), &who); err != nil || who.ID == "" {
		w.T.Fatal(err)
	}
	return team.User(who.ID)
}

// A card unfolds to what the tool was given and returned, and the agent is told of it in the next turn.
func (h *teamHouse) cardsAndMemory(t *testing.T) {
	const prompt, next = "where do we read events?", "and who calls it?"
	h.On(prompt, hermes.Says("Let me look."), hermes.Uses(hermes.Call{ID: "call_1", Name: "terminal", Label: "grep ReadEvent", Args: `{"command": "grep ReadEvent"}`, Result: `{"output": "stream.go:4"}`}), hermes.Says("\n\nIn stream.go."))
	h.alice.open(model)
	h.alice.ask(prompt)
	if m, raw := h.alice.ended(); m.Error != nil {
		t.Errorf("stored is %s", raw)
	}
	(&detailsHouse{house: h.alice}).tellsAll("grep ReadEvent", "stream.go:4")
	h.alice.Picture("open webui team card")
	h.alice.ask(next)
	h.alice.ended()
	all := h.Requests()
	last := all[len(all)-1]
	if !strings.Contains(last.Body, next) || !strings.Contains(last.Body, "these tools ran") || !strings.Contains(last.Body, "grep ReadEvent") {
		t.Errorf("the agent is not told what it did: %s", last.Body)
	}
	if first := h.Of(t, prompt); first.Key != "Bearer "+team.HermesKey || first.Header.Get("X-Hermes-Session-Key") != string(h.id(h.alice)) || !strings.Contains(first.Body, "Conversation space: ") {
		t.Errorf("the agent is asked with %v", first.Header)
	}
}

// Regenerate brings the answer whose connection broke, and the agent runs once.
func (h *teamHouse) lostAnswer(t *testing.T) {
	const prompt = "slow: make it anew"
	w := h.alice
	w.open(model)
	w.ask(prompt)
	h.Until(t, prompt)
	harness.Until(t, "the answer has begun", func() bool { return h.way.says("200", "stream_") })
	h.way.cut()
	m, raw := w.ended()
	if m.Error == nil {
		t.Fatalf("the cut is not seen: %s", raw)
	}
	w.regenerate(m)
	w.Wait(`document.querySelector('[aria-label="Stop"]')`)
	h.End(prompt)
	if m, raw := w.ended(); m.Error != nil || m.Content != "bye" {
		t.Errorf("stored is %s", raw)
	}
	w.Wait(shows("bye"))
	n := 0
	for _, heard := range h.Heard() {
		if heard == prompt {
			n++
		}
	}
	if n != 1 {
		t.Errorf("the agent was asked %d times", n)
	}
}

// A user sees the place in line, and has the turn before the next request of one who has asked for much.
func (h *teamHouse) waitTheirTurn(t *testing.T) {
	prompt := func(i int) string { return fmt.Sprint("slow: of many ", i) }
	var all []team.Reply
	for i := range team.Runs {
		all = append(all, h.Asks(t, h.id(h.alice), prompt(i), prompt(i)))
		h.Until(t, prompt(i))
	}
	waits := h.Asks(t, h.id(h.alice), "one more", prompt(team.Runs))
	if e := waits.Frame(t); !strings.Contains(e.Raw, "Waiting in line") {
		t.Fatalf("it is told %q", e.Raw)
	}
	const hers = "slow: of one"
	h.bob.open(model)
	h.bob.ask(hers)
	h.bob.Wait(told)
	h.bob.Picture("open webui team queue")
	h.End(prompt(0))
	h.Until(t, hers)
	if h.Has(prompt(team.Runs)) {
		t.Error("the user with many requests had the next turn")
	}
	h.End(hers)
	if m, raw := h.bob.ended(); m.Error != nil || m.Content != "bye" {
		t.Errorf("stored is %s", raw)
	}
	for i := range team.Runs + 1 {
		h.End(prompt(i))
	}
	for _, r := range append(all, waits) {
		r.All()
	}
}

// A user who follows the link in the answer, signed in to Open WebUI, answers what the agent asks. Another user
// cannot, with the same link.
func (h *teamHouse) approval(t *testing.T) {
	const prompt, command = "clean up", "rm -rf victim"
	h.On(prompt, hermes.Says("Let me."), hermes.Asks(hermes.Command{Text: command}), hermes.Reports("Done: "))
	w := h.alice
	w.open(model)
	w.ask(prompt)
	const link = `.chat-assistant a[href*="/hermes/approve/"]`
	w.Wait(fmt.Sprintf(`document.querySelectorAll(%q).length === 1`, link))
	w.Picture("open webui team approval")
	address := browser.Eval[string](w.Tab, fmt.Sprintf(`document.querySelector(%q).href`, link))

	h.bob.Do(chromedp.Navigate(address))
	if said := h.bob.Text("body"); strings.Contains(said, "victim") || h.bob.Count("button") != 0 || !strings.Contains(said, "Nothing to answer here") {
		t.Errorf("the page says to another user: %q", said)
	}
	stranger := browser.New(t, 400, 400)
	stranger.Do(chromedp.Navigate(address))
	if said := stranger.Text("body"); !strings.Contains(said, "Sign in") || stranger.Count("button") != 0 {
		t.Errorf("the page says to one who is not signed in: %q", said)
	}
	h.WantRan(t, command, 0)

	page := w.Follow(link)
	page.Wait(`document.body.innerText.includes("rm -rf victim")`)
	if status := page.Submit(`button[value="once"]`); status != http.StatusOK {
		t.Errorf("the page that answers: %d", status)
	}
	if m, raw := w.ended(); m.Error != nil || !strings.HasSuffix(m.Content, "Done: once") {
		t.Errorf("stored is %s", raw)
	}
	h.WantRan(t, command, 1)
}
