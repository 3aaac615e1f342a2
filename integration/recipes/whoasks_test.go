package recipes

import (
	"compress/gzip"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/browser"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// The user and the chat of Open WebUI in these tests.
const (
	webUser = "6f1c2a9e-5f0b-4d55-9c1e-0a2b3c4d5e6f"
	webChat = "0b9d8c7a-1e2f-4a3b-8c4d-5e6f7a8b9c0d"
)

// onPort runs a recipe whose site is :8643, and returns a client of it.
func onPort(t testing.TB, r sidecar.Recipe, env ...string) *client.Client {
	t.Helper()
	listen := harness.FreePort(t)
	r.With(":8643", ":"+harness.Port(listen)).Caddy(env...)
	return client.New(t, "http://"+listen)
}

// own are the headers of the last request that say who asks.
func own(up *upstream.Server) map[string][]string {
	all := up.Requests()
	seen := map[string][]string{}
	for name, values := range all[len(all)-1].Header {
		if strings.HasPrefix(name, "X-Hermes-") || strings.HasPrefix(name, "X-Openwebui-") || name == "Authorization" {
			seen[name] = values
		}
	}
	return seen
}

// Hermes is told who asks by Caddy alone, with a key for each user.
func TestRecipeWhoAsks(t *testing.T) {
	replay, body := upstream.Replay(hermes.Recorded(t, "g0-v0.8.0/one_tool"), upstream.ByFrame), ""
	up := upstream.New(t, func(x *upstream.Exchange) {
		body = string(x.Body)
		replay(x)
	})
	const alice, webui = "Bearer alice-0123456789abcdef", "Bearer webui-0123456789abcdef"
	c := onPort(t, recipeOf(t, "who-asks").With("127.0.0.1:8642", up.Addr),
		"KEY_ALICE="+alice[7:], "KEY_OPENWEBUI="+webui[7:], "API_SERVER_KEY=the-agents-own")

	spoofed := []string{"X-Hermes-Session-Key", "bob", "X-Hermes-Session-Id", "api-0", "x_hermes_session_key", "y"}
	fromWebUI := []string{"X-OpenWebUI-User-Id", webUser, "X-OpenWebUI-User-Email", "a@example.com", "X-OpenWebUI-Chat-Id", webChat}
	lines := map[string]string{} // by user
	for _, q := range []struct {
		name, key string
		headers   []string
		user      string // that arrives
	}{
		{"a user's key", alice, nil, "alice"},
		{"a user who says she is another", alice, spoofed, "alice"},
		{"a user who says she is of Open WebUI", alice, fromWebUI, "alice"},
		{"a user in Open WebUI", webui, fromWebUI, "openwebui-" + webUser},
		{"the same, spoofed", webui, slices.Concat(spoofed, fromWebUI), "openwebui-" + webUser},
		{"no user", webui, []string{"X-OpenWebUI-Chat-Id", webChat}, ""},
		{"a user that is none", webui, []string{"X-OpenWebUI-User-Id", "alice", "X-OpenWebUI-Chat-Id", webChat}, ""},
	} {
		t.Run(q.name, func(t *testing.T) {
			c.Of(t).Chat(append([]string{"Authorization", q.key}, q.headers...)...).CheckRepaired(t)
			want := map[string][]string{"Authorization": {"Bearer the-agents-own"}}
			if q.user != "" {
				want["X-Hermes-Session-Key"] = []string{q.user}
			}
			got, _ := json.Marshal(own(up))
			if want, _ := json.Marshal(want); string(got) != string(want) {
				t.Errorf("the agent saw %s, want %s", got, want)
			}
			lines[q.user] = checkLine(t, body, q.user != "", lines[q.user])
		})
	}
	if a := "Conversation space: 2bd806c97f0e00af"; lines["alice"] != a || lines["openwebui-"+webUser] == a {
		t.Errorf("the lines are %q", lines)
	}

	n := len(up.Requests())
	// KEY_BOB is not set: that admits no client.
	checkRefused(t, c, "", "Bearer ", "Bearer nobody", "Bearer fedcba9876543210", alice+"x", "Bearer the-agents-own", "Bearer {$KEY_BOB}")
	for _, path := range []string{"/api/sessions", "/api/sessions/s/chat/stream", "/v1/runs", "/v1/responses", "/p/other/v1/chat/completions"} {
		if res := c.Post(path, "Authorization", alice); res.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", path, res.Status)
		}
	}
	if len(up.Requests()) != n {
		t.Errorf("the agent was asked %d times more", len(up.Requests())-n)
	}
}

// checkLine wants the line of a user in a request's body, the one before if there was one, and
// returns it.
func checkLine(t *testing.T, body string, named bool, before string) string {
	t.Helper()
	line := regexp.MustCompile(`Conversation space: [0-9a-f]{16}`).FindString(body)
	if named != (line != "") || before != "" && line != before {
		t.Errorf("the line is %q, before it was %q: %s", line, before, body)
	}
	return line
}

// checkRefused wants the error of a wrong key for each.
func checkRefused(t *testing.T, c *client.Client, keys ...string) {
	t.Helper()
	for _, key := range keys {
		r := c.Chat("Authorization", key, "X-OpenWebUI-User-Id", webUser)
		if e := client.CheckJSON(t, r, http.StatusUnauthorized, "127.0.0.1"); e.Code != "invalid_api_key" {
			t.Errorf("%q: %+v", key, e)
		}
	}
}

// certified fills in the certificate of agent.example.com.
func certified(t testing.TB, r sidecar.Recipe) (sidecar.Recipe, *x509.CertPool) {
	t.Helper()
	dir, pool := client.Certificate(t, "agent.example.com")
	return r.With("/etc/caddy/agent.pem", dir+"/cert.pem").With("/etc/caddy/agent.key", dir+"/key.pem"), pool
}

// A site with TLS, compression, files and two agents; another site beside it.
func TestRecipeExistingSite(t *testing.T) {
	sidecar.NeedsModule(t, "http.handlers.file_server")
	up := upstream.New(t, upstream.Replay(hermes.Recorded(t, "g0-v0.8.0/one_tool"), upstream.ByFrame))
	coder := upstream.New(t, upstream.Replay(hermes.Recorded(t, "g1-v0.9.0/one_tool"), upstream.ByFrame))
	www := t.TempDir()
	harness.WriteFile(t, filepath.Join(www, "index.html"), []byte("welcome"))
	r, pool := certified(t, recipeOf(t, "existing-site"))
	d := r.With("127.0.0.1:8642", up.Addr).With("127.0.0.1:8652", coder.Addr).With("/srv/www", www).Caddy()

	c := d.Client(t, "agent.example.com", pool)
	live := c.Chat("Authorization", "Bearer secret")
	if live.Proto != "HTTP/2.0" {
		t.Errorf("spoken is %s", live.Proto)
	}
	live.CheckRepaired(t)
	if got := up.Requests()[0].Header.Get("Authorization"); got != "Bearer secret" {
		t.Errorf("the agent saw Authorization %q", got)
	}
	c.Post("/coder/v1/chat/completions").CheckRepaired(t)
	if got := coder.Requests()[0].URL.Path; got != "/v1/chat/completions" {
		t.Errorf("the second agent saw the path %s", got)
	}

	packed := c.Chat("Accept-Encoding", "gzip")
	z, err := gzip.NewReader(packed.In)
	if err != nil {
		t.Fatalf("%q: %v", packed.Header.Get("Content-Encoding"), err)
	}
	body, err := io.ReadAll(z)
	if err != nil {
		t.Error(err)
	}
	strict.Decode(t, string(body)).CheckGood(t)

	if body := c.Get("/"); body != "welcome" {
		t.Errorf("the files: %q", body)
	}
	if !d.Await("certificate obtained successfully") {
		t.Fatal("no certificate of Caddy's own authority")
	}
	root := harness.ReadFile(t, filepath.Join(d.Home, "data", "caddy", "pki", "authorities", "local", "root.crt"))
	pool.AppendCertsFromPEM([]byte(root))
	if body := d.Client(t, "wiki.example.com", pool).Get("/"); body != "the wiki" {
		t.Errorf("the other site: %q", body)
	}
}

// Keys, passwords or another service in front: who is known is answered, with the agent's own key behind, and the
// agent is not asked by strangers.
func TestRecipesWithLogins(t *testing.T) {
	authority := upstream.New(t, func(x *upstream.Exchange) {
		if x.Req.Header.Get("Cookie") != "session=alice" {
			x.Header("302 Found", "Location: https://auth.example.com/", "Content-Length: 0")
			return
		}
		x.Header("200 OK", "Remote-User: alice", "Content-Length: 0")
	})
	for name, c := range map[string]struct {
		recipe    sidecar.Recipe
		known     []string // headers of who is known
		user      []string // the field Remote-User that the agent gets
		strangers [][]string
		refuse    func(r *client.Reply)
	}{
		"keys": {
			// KEY_BOB is not set: that admits no client, and HTTP/2 hands on a space at the end.
			recipeOf(t, "keys"), bearer(annKey), nil,
			[][]string{nil, bearer(""), {"Authorization", "Bearer"}, bearer(benKey), bearer(annKey + "x"), {"Authorization", "bearer " + annKey}, bearer("{$KEY_BOB}"), bearer("the-agents-own")},
			func(r *client.Reply) {
				if e := client.CheckJSON(t, r, http.StatusUnauthorized, "127.0.0.1"); e.Code != "invalid_api_key" {
					t.Errorf("%+v", e)
				}
			},
		},
		"passwords": {
			recipeOf(t, "passwords"), basicOf("alice", "open sesame"), nil,
			[][]string{nil, basicOf("alice", "open"), bearer("the-agents-own")},
			func(r *client.Reply) {
				if r.StatusCode != http.StatusUnauthorized {
					t.Errorf("a stranger: %s", r.Status)
				}
			},
		},
		"forward-auth": {
			recipeOf(t, "forward-auth").With("127.0.0.1:9091", authority.Addr), []string{"Cookie", "session=alice", "Remote-User", "root"}, []string{"alice"},
			[][]string{{"Remote-User", "root"}},
			func(r *client.Reply) {
				if r.StatusCode != http.StatusFound {
					t.Errorf("a stranger: %s", r.Status)
				}
			},
		},
	} {
		up := upstream.New(t, upstream.Replay(hermes.Recorded(t, "g0-v0.8.0/one_tool"), upstream.ByFrame))
		r, pool := certified(t, c.recipe)
		d := r.With("127.0.0.1:8642", up.Addr).Caddy("KEY_ALICE="+annKey, "API_SERVER_KEY=the-agents-own")
		site := d.Client(t, "agent.example.com", pool)
		for _, stranger := range c.strangers {
			c.refuse(site.Chat(stranger...))
		}
		site.Chat(c.known...).CheckRepaired(t)
		all := up.Requests()
		if h := all[0].Header; len(all) != 1 || h.Get("Authorization") != "Bearer the-agents-own" || !slices.Equal(h["Remote-User"], c.user) {
			t.Errorf("%s: the agent was asked %d times, first with %v", name, len(all), h)
		}
	}
	if got := authority.Requests()[0]; got.URL.Path != "/api/authz/forward-auth" || got.Header.Get("X-Forwarded-Uri") != "/v1/chat/completions" {
		t.Errorf("the authority saw %s %v", got.URL, got.Header)
	}
}

// A stranger is answered before the body is there, unless the check comes after
// hermes, as the page says.
func TestRecipeOrderOfAuthentication(t *testing.T) {
	const check = "respond @stranger 401"
	stranger := "\n\t@stranger not header Authorization \"Bearer key\"\n"
	head := "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n"
	// Of so large a body Caddy waits for the first 256 KiB, but not for the end.
	part := `{"messages":[{"role":"user","content":"` + strings.Repeat("x", 300<<10)
	answered := func(within time.Duration, directives string) bool {
		base, _ := sidecar.ServeCaddyfile(t, stranger+directives)
		conn := client.Dial(t, base)
		defer conn.Close()
		go io.WriteString(conn, head+part)
		conn.SetReadDeadline(time.Now().Add(within))
		status := make([]byte, len("HTTP/1.1 401"))
		_, err := io.ReadFull(conn, status)
		if err == nil && string(status) != "HTTP/1.1 401" {
			t.Errorf("answered by %s", status)
		}
		return err == nil
	}
	if !answered(harness.Patience, "\thandle @stranger {\n\t\trespond 401\n\t}\n\thandle {\n\t\thermes\n\t\treverse_proxy 127.0.0.1:1\n\t}\n") {
		t.Error("in a block of its own: the body is waited for")
	}
	if answered(300*time.Millisecond, "\thermes\n\t"+check+"\n\treverse_proxy 127.0.0.1:1\n") {
		t.Error("after hermes the body is not waited for any more: the page says otherwise")
	}
	if !answered(harness.Patience, "\thermes\n\tbasic_auth argon2id {\n\t\talice $argon2id$v=19$m=47104,t=1,p=1$YPW15B/n/cNur5qhyyDi0w$FVTkFs7NoKMG4ShC7a/lufQ3yAT2oiQ2ZepdiTRV8Is\n\t}\n\treverse_proxy 127.0.0.1:1\n") {
		t.Error("basic_auth: the body is waited for")
	}
}

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

// stainless are the header fields that openai-node 7.59.0 sends from a page.
const stainless = `"OpenAI-Organization": "o", "OpenAI-Project": "p", "X-Stainless-Lang": "js", "X-Stainless-Package-Version": "7.59.0", "X-Stainless-OS": "Unknown", ` +
	`"X-Stainless-Arch": "unknown", "X-Stainless-Runtime": "browser:chrome", "X-Stainless-Runtime-Version": "140.0.0", "X-Stainless-Retry-Count": "0", ` +
	`"X-Stainless-Timeout": "600", "X-Stainless-Helper-Method": "stream"`

// exposed has what an SDK in the page has to read, and what a page that comes back to an answer needs.
const exposed = "X-Hermes-Session-Id, X-Should-Retry, X-Hermes-Stream, Content-Location, Idempotency-Replayed"

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
		`"X-Hermes-Session-Id": "mine", "X-Hermes-Session-Key": "key", "X-Hermes-Tool-Progress": "off", ` + stainless + `}}).then(async r => [r.status, r.headers.get("x-hermes-session-id"), await r.text()].join("\n"), e => "refused: " + e)`
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
// read its id, and come back, by its key and after an event.
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
		t.Errorf("after the second event %q, want %q", harness.Clip(text), harness.Clip(behind))
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
