package integration

import (
	"compress/gzip"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// certified fills in the certificate of agent.example.com.
func certified(t testing.TB, r recipe) (recipe, *x509.CertPool) {
	t.Helper()
	dir, pool := certificate(t, "agent.example.com")
	return r.with("/etc/caddy/agent.pem", dir+"/cert.pem").with("/etc/caddy/agent.key", dir+"/key.pem"), pool
}

// checkRepaired wants the tool of the recording one_tool as an event.
func (r *reply) checkRepaired(t testing.TB) {
	t.Helper()
	a := r.answer()
	a.checkGood(t)
	if len(a.starts) != 1 || a.content != "Let me check.\n\nThere are 3 files." {
		t.Errorf("starts %v, content %q", a.starts, a.content)
	}
}

// A site with TLS, compression, files and two agents; another site beside it.
func TestRecipeExistingSite(t *testing.T) {
	needsModule(t, "http.handlers.file_server")
	up := newUpstream(t, replay(recorded(t, "g0-v0.8.0/one_tool"), byFrame))
	coder := newUpstream(t, replay(recorded(t, "g1-v0.9.0/one_tool"), byFrame))
	www := t.TempDir()
	write(t, filepath.Join(www, "index.html"), []byte("welcome"))
	r, pool := certified(t, recipeOf(t, "existing-site"))
	d := r.with("127.0.0.1:8642", up.addr).with("127.0.0.1:8652", coder.addr).with("/srv/www", www).caddy()

	c := d.client(t, "agent.example.com", pool)
	live := c.chat("Authorization", "Bearer secret")
	if live.Proto != "HTTP/2.0" {
		t.Errorf("spoken is %s", live.Proto)
	}
	live.checkRepaired(t)
	if got := up.requests()[0].Header.Get("Authorization"); got != "Bearer secret" {
		t.Errorf("the agent saw Authorization %q", got)
	}
	c.post("/coder/v1/chat/completions").checkRepaired(t)
	if got := coder.requests()[0].URL.Path; got != "/v1/chat/completions" {
		t.Errorf("the second agent saw the path %s", got)
	}

	packed := c.chat("Accept-Encoding", "gzip")
	z, err := gzip.NewReader(packed.in)
	if err != nil {
		t.Fatalf("%q: %v", packed.Header.Get("Content-Encoding"), err)
	}
	body, err := io.ReadAll(z)
	if err != nil {
		t.Error(err)
	}
	decode(t, string(body)).checkGood(t)

	if body := c.get("/"); body != "welcome" {
		t.Errorf("the files: %q", body)
	}
	if !d.log.wait("certificate obtained successfully", d.exited) {
		t.Fatal("no certificate of Caddy's own authority")
	}
	root := read(t, filepath.Join(d.home, "data", "caddy", "pki", "authorities", "local", "root.crt"))
	pool.AppendCertsFromPEM([]byte(root))
	if body := d.client(t, "wiki.example.com", pool).get("/"); body != "the wiki" {
		t.Errorf("the other site: %q", body)
	}
}

// Keys in front, the agent's own behind, and nothing of a stranger is read.
func TestRecipeKeys(t *testing.T) {
	up := newUpstream(t, replay(recorded(t, "g0-v0.8.0/one_tool"), byFrame))
	r, pool := certified(t, recipeOf(t, "keys"))
	d := r.with("127.0.0.1:8642", up.addr).caddy("KEY_ALICE=0123456789abcdef", "API_SERVER_KEY=the-agents-own")
	c := d.client(t, "agent.example.com", pool)
	c.chat("Authorization", "Bearer 0123456789abcdef").checkRepaired(t)
	if got := up.requests()[0].Header.Get("Authorization"); got != "Bearer the-agents-own" {
		t.Errorf("the agent saw Authorization %q", got)
	}
	// KEY_BOB is not set: that lets nobody in, and HTTP/2 hands on a space at the end.
	for _, key := range []string{"", "Bearer ", "Bearer", "Bearer fedcba9876543210", "Bearer 0123456789abcdef0x", "bearer 0123456789abcdef", "Bearer {$KEY_BOB}", "Bearer the-agents-own"} {
		res := c.chat("Authorization", key)
		body := res.all()
		var e struct{ Error apiError }
		if err := json.Unmarshal([]byte(body), &e); err != nil || res.StatusCode != http.StatusUnauthorized || e.Error.Code != "invalid_api_key" {
			t.Errorf("%q: %s %q", key, res.Status, body)
		}
	}
	if n := len(up.requests()); n != 1 {
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
		base, _ := caddyWith(t, stranger+directives)
		conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		go io.WriteString(conn, head+part)
		conn.SetReadDeadline(time.Now().Add(within))
		status := make([]byte, len("HTTP/1.1 401"))
		_, err = io.ReadFull(conn, status)
		if err == nil && string(status) != "HTTP/1.1 401" {
			t.Errorf("answered by %s", status)
		}
		return err == nil
	}
	if !answered(patience, "\thandle @stranger {\n\t\trespond 401\n\t}\n\thandle {\n\t\thermes\n\t\treverse_proxy 127.0.0.1:1\n\t}\n") {
		t.Error("in a block of its own: the body is waited for")
	}
	if answered(300*time.Millisecond, "\thermes\n\t"+check+"\n\treverse_proxy 127.0.0.1:1\n") {
		t.Error("behind hermes the body is not waited for any more: the page says otherwise")
	}
	if !answered(patience, "\thermes\n\tbasic_auth argon2id {\n\t\talice $argon2id$v=19$m=47104,t=1,p=1$YPW15B/n/cNur5qhyyDi0w$FVTkFs7NoKMG4ShC7a/lufQ3yAT2oiQ2ZepdiTRV8Is\n\t}\n\treverse_proxy 127.0.0.1:1\n") {
		t.Error("basic_auth: the body is waited for")
	}
}

// A password in front, the agent's key behind.
func TestRecipePasswords(t *testing.T) {
	up := newUpstream(t, replay(recorded(t, "g0-v0.8.0/one_tool"), byFrame))
	r, pool := certified(t, recipeOf(t, "passwords"))
	d := r.with("127.0.0.1:8642", up.addr).caddy("API_SERVER_KEY=the-agents-own")
	c := d.client(t, "agent.example.com", pool)
	basic := func(password string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte("alice:"+password))
	}
	c.chat("Authorization", basic("open sesame")).checkRepaired(t)
	if got := up.requests()[0].Header.Get("Authorization"); got != "Bearer the-agents-own" {
		t.Errorf("the agent saw Authorization %q", got)
	}
	for _, a := range []string{"", basic("open"), "Bearer the-agents-own"} {
		if res := c.chat("Authorization", a); res.StatusCode != http.StatusUnauthorized {
			t.Errorf("%q: %s", a, res.Status)
		}
	}
	if n := len(up.requests()); n != 1 {
		t.Errorf("the agent was asked %d times", n)
	}
}

// Another service decides, and says who it is.
func TestRecipeForwardAuth(t *testing.T) {
	up := newUpstream(t, replay(recorded(t, "g0-v0.8.0/one_tool"), byFrame))
	authority := newUpstream(t, func(x *exchange) {
		if x.req.Header.Get("Cookie") != "session=alice" {
			x.header("302 Found", "Location: https://auth.example.com/", "Content-Length: 0")
			return
		}
		x.header("200 OK", "Remote-User: alice", "Content-Length: 0")
	})
	r, pool := certified(t, recipeOf(t, "forward-auth"))
	d := r.with("127.0.0.1:8642", up.addr).with("127.0.0.1:9091", authority.addr).caddy("API_SERVER_KEY=the-agents-own")
	c := d.client(t, "agent.example.com", pool)
	if res := c.chat("Remote-User", "root"); res.StatusCode != http.StatusFound || len(up.requests()) != 0 {
		t.Errorf("a stranger: %s, the agent was asked %d times", res.Status, len(up.requests()))
	}
	c.chat("Cookie", "session=alice", "Remote-User", "root").checkRepaired(t)
	seen := up.requests()[0].Header
	if got := seen["Remote-User"]; len(got) != 1 || got[0] != "alice" || seen.Get("Authorization") != "Bearer the-agents-own" {
		t.Errorf("the agent saw %v", seen)
	}
	if got := authority.requests()[0]; got.URL.Path != "/api/authz/forward-auth" || got.Header.Get("X-Forwarded-Uri") != "/v1/chat/completions" {
		t.Errorf("the authority saw %s %v", got.URL, got.Header)
	}
}
