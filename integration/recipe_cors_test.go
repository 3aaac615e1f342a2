package integration

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// preflights answers as Hermes was recorded to answer a preflight, and gives the
// page's origin leave in all other answers, as Hermes does.
func preflights(t testing.TB, origin string, then script) script {
	t.Helper()
	answer := strings.ReplaceAll(strings.ReplaceAll(read(t, captures+"/g3-v0.20.3/cors.preflight.http"), "\r\n", "\n"), "\n", "\r\n")
	if !strings.Contains(answer, "http://ui.example") {
		t.Fatal("the recording is of another origin")
	}
	answer = strings.Replace(answer, "http://ui.example", origin, 1)
	return func(x *exchange) {
		if x.req.Method == http.MethodOptions {
			x.raw(answer)
			return
		}
		then(x)
	}
}

// A browser lets a page of another origin set the headers, read the session and
// the stream, and read an error that the agent has not written.
func TestRecipeCORS(t *testing.T) {
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<title>chat</title>")
	}))
	defer page.Close()
	stream := recorded(t, "g0-v0.8.0/one_tool")
	stream.header = strings.Replace(stream.header, "\r\n", "\r\nAccess-Control-Allow-Origin: "+page.URL+"\r\nVary: Origin\r\n", 1)
	up := newUpstream(t, preflights(t, page.URL, replay(stream, byFrame)))
	listen := freePort(t)
	recipeOf(t, "cors").with(":8643", ":"+port(listen)).with("https://chat.example.com", page.URL).with("127.0.0.1:8642", up.addr).caddy()

	// What is on the wire: each thing once, and a stranger's origin is given nothing.
	c := newClient(t, "http://"+listen)
	r := c.chat("Origin", page.URL)
	if got := r.Header["Access-Control-Allow-Origin"]; len(got) != 1 || got[0] != page.URL {
		t.Errorf("Access-Control-Allow-Origin %q", got)
	}
	if got := r.Header["Access-Control-Expose-Headers"]; len(got) != 1 || got[0] != "X-Hermes-Session-Id, X-Should-Retry" {
		t.Errorf("Access-Control-Expose-Headers %q", got) // what an SDK in the page has to read
	}
	r.checkRepaired(t)
	foreign := c.chat("Origin", "https://elsewhere.example")
	if got := foreign.Header["Access-Control-Expose-Headers"]; len(got) != 0 {
		t.Errorf("a stranger gets Access-Control-Expose-Headers %q", got)
	}
	foreign.all()
	if n := len(up.requests()); up.requests()[n-1].Header.Get("Origin") != "https://elsewhere.example" {
		t.Error("the agent has not seen the Origin")
	}

	b := newTab(t, 800, 600)
	b.do(chromedp.Navigate(page.URL))
	const ask = `fetch(%q, {method: "POST", body: %q, headers: {"Authorization": "Bearer key", "Content-Type": "application/json", ` +
		`"X-Hermes-Session-Id": "mine", "X-Hermes-Tool-Progress": "off"}}).then(async r => [r.status, r.headers.get("x-hermes-session-id"), await r.text()].join("\n"), e => "refused: " + e)`
	fetch := func() string {
		return eval[string](b, fmt.Sprintf(ask, "http://"+listen+"/v1/chat/completions", question))
	}
	got := fetch()
	if !strings.HasPrefix(got, "200\nb58e0870-7c5d-46c3-bc7d-38f81258d5c5\ndata: ") || strings.Contains(got, "hermes.tool.progress") || !strings.HasSuffix(got, "[DONE]\n\n") {
		t.Errorf("the page got %q", clip(got))
	}
	last := up.requests()[len(up.requests())-1].Header
	if last.Get("X-Hermes-Session-Id") != "mine" || last.Get("X-Hermes-Tool-Progress") != "off" || last.Get("Authorization") != "Bearer key" {
		t.Errorf("the agent saw %v", last)
	}

	// The agent is not there any more. The browser remembers its leave.
	up.close()
	if got = fetch(); !strings.HasPrefix(got, "502\n\n{\"error\":") {
		t.Errorf("the page got %q", clip(got))
	}
	r = c.chat("Origin", page.URL)
	host, _, _ := net.SplitHostPort(up.addr)
	checkJSON(t, r, http.StatusBadGateway, host+":")
	if got := r.Header["Access-Control-Allow-Origin"]; len(got) != 1 || got[0] != page.URL {
		t.Errorf("an error has Access-Control-Allow-Origin %q", got)
	}
}
