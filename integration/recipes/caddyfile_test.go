package recipes

import (
	"compress/gzip"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

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
	if !d.Says("certificate obtained successfully") {
		t.Fatal("no certificate of Caddy's own authority")
	}
	root := harness.ReadFile(t, filepath.Join(d.Home, "data", "caddy", "pki", "authorities", "local", "root.crt"))
	pool.AppendCertsFromPEM([]byte(root))
	if body := d.Client(t, "wiki.example.com", pool).Get("/"); body != "the wiki" {
		t.Errorf("the other site: %q", body)
	}
}

// Keys in front, the agent's own behind, and nothing of a stranger is read.
func TestRecipeKeys(t *testing.T) {
	up := upstream.New(t, upstream.Replay(hermes.Recorded(t, "g0-v0.8.0/one_tool"), upstream.ByFrame))
	r, pool := certified(t, recipeOf(t, "keys"))
	d := r.With("127.0.0.1:8642", up.Addr).Caddy("KEY_ALICE=0123456789abcdef", "API_SERVER_KEY=the-agents-own")
	c := d.Client(t, "agent.example.com", pool)
	c.Chat("Authorization", "Bearer 0123456789abcdef").CheckRepaired(t)
	if got := up.Requests()[0].Header.Get("Authorization"); got != "Bearer the-agents-own" {
		t.Errorf("the agent saw Authorization %q", got)
	}
	// KEY_BOB is not set: that lets nobody in, and HTTP/2 hands on a space at the end.
	for _, key := range []string{"", "Bearer ", "Bearer", "Bearer fedcba9876543210", "Bearer 0123456789abcdef0x", "bearer 0123456789abcdef", "Bearer {$KEY_BOB}", "Bearer the-agents-own"} {
		res := c.Chat("Authorization", key)
		body := res.All()
		var e struct{ Error strict.APIError }
		if err := json.Unmarshal([]byte(body), &e); err != nil || res.StatusCode != http.StatusUnauthorized || e.Error.Code != "invalid_api_key" {
			t.Errorf("%q: %s %q", key, res.Status, body)
		}
	}
	if n := len(up.Requests()); n != 1 {
		t.Errorf("the agent was asked %d times", n)
	}
}

// A stranger is answered before the body is there, unless the check stands behind
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
		t.Error("behind hermes the body is not waited for any more: the page says otherwise")
	}
	if !answered(harness.Patience, "\thermes\n\tbasic_auth argon2id {\n\t\talice $argon2id$v=19$m=47104,t=1,p=1$YPW15B/n/cNur5qhyyDi0w$FVTkFs7NoKMG4ShC7a/lufQ3yAT2oiQ2ZepdiTRV8Is\n\t}\n\treverse_proxy 127.0.0.1:1\n") {
		t.Error("basic_auth: the body is waited for")
	}
}

// A password in front, the agent's key behind.
func TestRecipePasswords(t *testing.T) {
	up := upstream.New(t, upstream.Replay(hermes.Recorded(t, "g0-v0.8.0/one_tool"), upstream.ByFrame))
	r, pool := certified(t, recipeOf(t, "passwords"))
	d := r.With("127.0.0.1:8642", up.Addr).Caddy("API_SERVER_KEY=the-agents-own")
	c := d.Client(t, "agent.example.com", pool)
	basic := func(password string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte("alice:"+password))
	}
	c.Chat("Authorization", basic("open sesame")).CheckRepaired(t)
	if got := up.Requests()[0].Header.Get("Authorization"); got != "Bearer the-agents-own" {
		t.Errorf("the agent saw Authorization %q", got)
	}
	for _, a := range []string{"", basic("open"), "Bearer the-agents-own"} {
		if res := c.Chat("Authorization", a); res.StatusCode != http.StatusUnauthorized {
			t.Errorf("%q: %s", a, res.Status)
		}
	}
	if n := len(up.Requests()); n != 1 {
		t.Errorf("the agent was asked %d times", n)
	}
}

// Another service decides, and says who it is.
func TestRecipeForwardAuth(t *testing.T) {
	up := upstream.New(t, upstream.Replay(hermes.Recorded(t, "g0-v0.8.0/one_tool"), upstream.ByFrame))
	authority := upstream.New(t, func(x *upstream.Exchange) {
		if x.Req.Header.Get("Cookie") != "session=alice" {
			x.Header("302 Found", "Location: https://auth.example.com/", "Content-Length: 0")
			return
		}
		x.Header("200 OK", "Remote-User: alice", "Content-Length: 0")
	})
	r, pool := certified(t, recipeOf(t, "forward-auth"))
	d := r.With("127.0.0.1:8642", up.Addr).With("127.0.0.1:9091", authority.Addr).Caddy("API_SERVER_KEY=the-agents-own")
	c := d.Client(t, "agent.example.com", pool)
	if res := c.Chat("Remote-User", "root"); res.StatusCode != http.StatusFound || len(up.Requests()) != 0 {
		t.Errorf("a stranger: %s, the agent was asked %d times", res.Status, len(up.Requests()))
	}
	c.Chat("Cookie", "session=alice", "Remote-User", "root").CheckRepaired(t)
	seen := up.Requests()[0].Header
	if got := seen["Remote-User"]; len(got) != 1 || got[0] != "alice" || seen.Get("Authorization") != "Bearer the-agents-own" {
		t.Errorf("the agent saw %v", seen)
	}
	if got := authority.Requests()[0]; got.URL.Path != "/api/authz/forward-auth" || got.Header.Get("X-Forwarded-Uri") != "/v1/chat/completions" {
		t.Errorf("the authority saw %s %v", got.URL, got.Header)
	}
}
