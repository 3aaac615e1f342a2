package recipes

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/browser"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// preflights answers as Hermes was recorded to answer a preflight, and gives the
// page's origin leave in all other answers, as Hermes does.
func preflights(t testing.TB, origin string, then upstream.Script) upstream.Script {
	t.Helper()
	answer := strings.ReplaceAll(strings.ReplaceAll(harness.ReadFile(t, hermes.Captures+"/g3-v0.20.3/cors.preflight.http"), "\r\n", "\n"), "\n", "\r\n")
	if !strings.Contains(answer, "http://ui.example") {
		t.Fatal("the recording is of another origin")
	}
	answer = strings.Replace(answer, "http://ui.example", origin, 1)
	return func(x *upstream.Exchange) {
		if x.Req.Method == http.MethodOptions {
			x.Raw(answer)
			return
		}
		then(x)
	}
}

// exposed has what an SDK in the page has to read, and what a page that comes back to an answer needs.
const exposed = "X-Hermes-Session-Id, X-Should-Retry, X-Hermes-Stream, Idempotency-Replayed"

// corsSite serves a page of another origin, and the recipe, with handlers in the place of
// hermes, in front of an upstream that admits the page.
func corsSite(t *testing.T, handlers string) (page *httptest.Server, listen string, up *upstream.Server) {
	t.Helper()
	page = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<title>chat</title>")
	}))
	t.Cleanup(page.Close)
	stream := hermes.Recorded(t, "g0-v0.8.0/one_tool")
	stream.Header = strings.Replace(stream.Header, "\r\n", "\r\nAccess-Control-Allow-Origin: "+page.URL+"\r\nVary: Origin\r\n", 1)
	up = upstream.New(t, preflights(t, page.URL, upstream.Replay(stream, upstream.ByFrame)))
	listen = harness.FreePort(t)
	recipeOf(t, "cors").With(":8643", ":"+harness.Port(listen)).With("https://chat.example.com", page.URL).With("127.0.0.1:8642", up.Addr).
		With("\thermes\n", handlers).Caddy()
	return page, listen, up
}

// A browser lets a page of another origin set the headers, read the session and
// the stream, and read an error that the agent has not written.
func TestRecipeCORS(t *testing.T) {
	page, listen, up := corsSite(t, "\thermes\n")

	// What is on the wire: each thing once, and a stranger's origin is given nothing.
	c := client.New(t, "http://"+listen)
	r := c.Chat("Origin", page.URL)
	if got := r.Header["Access-Control-Allow-Origin"]; len(got) != 1 || got[0] != page.URL {
		t.Errorf("Access-Control-Allow-Origin %q", got)
	}
	if got := r.Header["Access-Control-Expose-Headers"]; len(got) != 1 || got[0] != exposed {
		t.Errorf("Access-Control-Expose-Headers %q", got)
	}
	r.CheckRepaired(t)
	foreign := c.Chat("Origin", "https://elsewhere.example")
	if got := foreign.Header["Access-Control-Expose-Headers"]; len(got) != 0 {
		t.Errorf("a stranger gets Access-Control-Expose-Headers %q", got)
	}
	foreign.All()
	if n := len(up.Requests()); up.Requests()[n-1].Header.Get("Origin") != "https://elsewhere.example" {
		t.Error("the agent has not seen the Origin")
	}

	b := browser.New(t, 800, 600)
	b.Do(chromedp.Navigate(page.URL))
	const ask = `fetch(%q, {method: "POST", body: %q, headers: {"Authorization": "Bearer key", "Content-Type": "application/json", ` +
		`"X-Hermes-Session-Id": "mine", "X-Hermes-Tool-Progress": "off"}}).then(async r => [r.status, r.headers.get("x-hermes-session-id"), await r.text()].join("\n"), e => "refused: " + e)`
	fetch := func() string {
		return browser.Eval[string](b, fmt.Sprintf(ask, "http://"+listen+"/v1/chat/completions", client.Question))
	}
	got := fetch()
	if !strings.HasPrefix(got, "200\nb58e0870-7c5d-46c3-bc7d-38f81258d5c5\ndata: ") || strings.Contains(got, "hermes.tool.progress") || !strings.HasSuffix(got, "[DONE]\n\n") {
		t.Errorf("the page got %q", harness.Clip(got))
	}
	last := up.Requests()[len(up.Requests())-1].Header
	if last.Get("X-Hermes-Session-Id") != "mine" || last.Get("X-Hermes-Tool-Progress") != "off" || last.Get("Authorization") != "Bearer key" {
		t.Errorf("the agent saw %v", last)
	}

	// The agent is not there any more. The browser remembers its leave.
	up.Close()
	if got = fetch(); !strings.HasPrefix(got, "502\n\n{\"error\":") {
		t.Errorf("the page got %q", harness.Clip(got))
	}
	r = c.Chat("Origin", page.URL)
	host, _, _ := net.SplitHostPort(up.Addr)
	client.CheckJSON(t, r, http.StatusBadGateway, host+":")
	if got := r.Header["Access-Control-Allow-Origin"]; len(got) != 1 || got[0] != page.URL {
		t.Errorf("an error has Access-Control-Allow-Origin %q", got)
	}
}

// With hermes_resume, a browser lets the page ask for a stream that outlives its connection,
// read its id, and come back, by its key and behind an event.
func TestRecipeCORSResumes(t *testing.T) {
	page, listen, up := corsSite(t, "\thermes_resume\n\thermes\n")

	b := browser.New(t, 800, 600)
	b.Do(chromedp.Navigate(page.URL))
	const ask = `fetch(%q, {method: "POST", body: %q, headers: {"Authorization": "Bearer key", "Content-Type": "application/json", %s}}).then(async r => ` +
		`[r.status, r.headers.get("x-hermes-stream"), r.headers.get("idempotency-replayed"), await r.text()].join("\n"), e => "refused: " + e)`
	fetch := func(headers string) (id, replayed, text string) {
		t.Helper()
		got := strings.SplitN(browser.Eval[string](b, fmt.Sprintf(ask, "http://"+listen+"/v1/chat/completions", client.Question, headers)), "\n", 4)
		if len(got) != 4 || got[0] != "200" {
			t.Fatalf("the page got %q", got)
		}
		return got[1], got[2], got[3]
	}
	id, replayed, first := fetch(`"Idempotency-Key": "mine", "X-Hermes-Detach": "10m"`)
	if id == "" || replayed != "" || !strings.Contains(first, "id: "+id+"/2\n") || !strings.Contains(first, "data: [DONE]\n") {
		t.Errorf("the page got the stream %q, replayed %q: %q", id, replayed, harness.Clip(first))
	}
	again, replayed, text := fetch(`"Idempotency-Key": "mine"`)
	if again != id || replayed != "true" || text != first {
		t.Errorf("then the stream %q, replayed %q: %q", again, replayed, harness.Clip(text))
	}
	_, _, text = fetch(`"Last-Event-ID": "` + id + `/2"`)
	if _, behind, _ := strings.Cut(first, "id: "+id+"/2\n\n"); behind == "" || text != behind {
		t.Errorf("behind the second event %q, want %q", harness.Clip(text), harness.Clip(behind))
	}
	asked := 0
	for _, r := range up.Requests() {
		if r.Method == http.MethodPost {
			asked++
		}
	}
	if asked != 1 {
		t.Errorf("the agent was asked %d times", asked)
	}
	r := client.New(t, "http://"+listen).Chat("Origin", page.URL, "Last-Event-ID", id+"/2", "Authorization", "Bearer key")
	for name, want := range map[string]string{"Access-Control-Allow-Origin": page.URL, "Access-Control-Expose-Headers": exposed} {
		if got := r.Header[name]; len(got) != 1 || got[0] != want {
			t.Errorf("a stream that is continued has %s %q", name, got)
		}
	}
	r.All()
}
