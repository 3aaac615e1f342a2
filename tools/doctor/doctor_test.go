package doctor

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/caddytest"
)

const key = "of-this-test-and-nothing-else"

// testDoctor returns a doctor with the key for what is at address. A busy machine may answer late,
// no other machine reaches this one, and time stands still.
func testDoctor(address, key string) *doctor {
	return &doctor{
		to: address, key: key, timeout: caddytest.Patience, askTimeout: caddytest.Patience,
		dial:         new(net.Dialer).DialContext,
		ownAddresses: func() ([]netip.Addr, error) { return nil, nil },
		now:          func() time.Time { return time.Unix(0, 0) },
	}
}

// own returns a function that lists the addresses as those of this machine.
func own(addresses ...string) func() ([]netip.Addr, error) {
	return func() (all []netip.Addr, err error) {
		for _, a := range addresses {
			all = append(all, netip.MustParseAddr(a))
		}
		return all, nil
	}
}

// examined returns what the doctor finds, and fails if the key is in the report.
func (d *doctor) examined(t testing.TB) Agent {
	t.Helper()
	subjects, err := d.subjects()
	if err != nil {
		t.Fatal(err)
	}
	a := d.examine(t.Context(), subjects[0])
	if r := newReport(a); d.key != "" && strings.Contains(r.text()+r.json(), d.key) {
		t.Errorf("the key is in the report:\n%s", r.text())
	}
	return a
}

// finding returns the first finding of a check, zero if there is none.
func (a Agent) finding(check string) Finding {
	for _, f := range a.Findings {
		if f.Check == check {
			return f
		}
	}
	return Finding{}
}

// expect fails unless the first finding of a check has the level and begins with says.
func (a Agent) expect(t testing.TB, name any, check string, level Level, says string) {
	t.Helper()
	if got := a.finding(check); got.Level != level || !strings.HasPrefix(got.Says, says) {
		t.Errorf("%v: %+v of %+v, want %s, %q", name, got, a.Findings, level, says)
	}
}

// A fake is a Hermes that answers with recordings. It notes requests.
type fake struct {
	dir      string // of recordings
	scenario string // of the chat, such as one_tool
	key      string // "" for none
	serve    map[string]http.HandlerFunc

	mu         sync.Mutex
	seen, keys []string
}

// note notes a request.
func (f *fake) note(r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen, f.keys = append(f.seen, r.Method+" "+r.URL.Path), append(f.keys, r.Header.Get("Authorization"))
}

// requests returns the methods and paths of the requests so far, and their keys.
func (f *fake) requests() (seen, keys []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.seen), slices.Clone(f.keys)
}

// start starts the server and returns its address.
func (f *fake) start(t testing.TB) string {
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s.URL
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.note(r)
	if own := f.serve[r.URL.Path]; own != nil {
		own(w, r)
		return
	}
	needsKey := f.key != "" && r.Header.Get("Authorization") != "Bearer "+f.key
	switch {
	case r.URL.Path == "/health":
		f.replay(w, "health.http")
	case needsKey:
		f.replay(w, "err.401.http")
	case r.URL.Path == "/v1/models":
		f.replay(w, "models.http")
	case r.URL.Path == chatPath && f.scenario != "":
		f.replay(w, f.scenario+".sse")
	default:
		http.NotFound(w, r)
	}
}

// replay answers with a recording: a .http, or a .sse with its .headers.
func (f *fake) replay(w http.ResponseWriter, file string) {
	b, err := os.ReadFile(filepath.Join(captures, f.dir, file))
	if name, is := strings.CutSuffix(file, ".sse"); is && err == nil {
		var header []byte
		header, err = os.ReadFile(filepath.Join(captures, f.dir, name+".headers"))
		b = append(append(bytes.TrimRight(header, "\r\n"), "\r\n\r\n"...), b...)
	}
	if err != nil {
		panic(err)
	}
	head, body, _ := bytes.Cut(bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")), []byte("\n\n"))
	res, err := http.ReadResponse(bufio.NewReader(strings.NewReader(string(head)+"\n\n")), nil)
	if err != nil {
		panic(err)
	}
	for name, values := range res.Header {
		if name != "Transfer-Encoding" && name != "Content-Length" {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(res.StatusCode)
	for frame := range bytes.SplitAfterSeq(body, []byte("\n\n")) {
		w.Write(frame)
		w.(http.Flusher).Flush()
	}
}

// status answers with a status, a header unless its name is empty, and a body.
func status(code int, header, value, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if header != "" {
			w.Header().Set(header, value)
		}
		w.WriteHeader(code)
		io.WriteString(w, body)
	}
}

// abort breaks the connection off.
func abort(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// TestReportsOfAgents of every generation are those in testdata: with a key, and with one
// chat request.
func TestReportsOfAgents(t *testing.T) {
	for _, dir := range []string{"gm1-v0.6.0", "g0-v0.8.0", "g1-v0.9.0", "g2-v0.13.0", "g3-v0.20.3"} {
		f := &fake{dir: dir, scenario: "one_tool", key: key}
		d := testDoctor(f.start(t), key)
		d.ask = true
		r := newReport(d.examined(t))
		neutral := strings.NewReplacer(d.to, "http://127.0.0.1:8642")
		golden(t, "agent-"+dir+".txt", neutral.Replace(r.text()))
		if dir == "g3-v0.20.3" {
			golden(t, "agent-"+dir+".json", neutral.Replace(r.json()))
		}
		if r.Result != resultOK {
			t.Errorf("%s has problems:\n%s", dir, r.text())
		}
		seen, _ := f.requests()
		chats := strings.Count(strings.Join(seen, "\n"), "POST")
		if chats != 1 || len(seen) > 5 { // one for the session of the answer
			t.Errorf("%s: requests %q", dir, seen)
		}
	}
}

// TestKeys: the right one, the wrong one, none, and one that is not needed.
func TestKeys(t *testing.T) {
	for _, c := range []struct {
		needed, given string
		level         Level
		says          string
	}{
		{key, key, OK, "it requires a key, and accepts this one"},
		{key, "another-key-of-this-test", Fail, "it rejects this key (status 401: “Invalid gateway API key"},
		{key, "", Fail, "it requires a key (status 401), and none was given"},
		{"", key, Warn, "it answers without a key"},
		{"", "", Warn, "it answers without a key"},
	} {
		f := &fake{dir: "g3-v0.20.3", scenario: "plain", key: c.needed}
		d := testDoctor(f.start(t), c.given)
		d.ask = true
		a := d.examined(t)
		a.expect(t, c, "key", c.level, c.says)
		seen, keys := f.requests()
		if asked := strings.Contains(strings.Join(seen, "\n"), "POST"); asked != (c.level != Fail) {
			t.Errorf("%+v: requests %q", c, seen)
		}
		// What to do comes first: of an agent that refuses the key, nothing else is listed.
		if listed := len(a.Repairs)+len(a.Options) > 0; listed != (c.level != Fail) || a.Releases != "0.20.3" {
			t.Errorf("%+v: %+v", c, a)
		}
		if keys[0] != "" || keys[1] != "" {
			t.Errorf("%+v: the key is sent before it is known who answers: %q", c, keys)
		}
	}
}

// TestOddAgents: models that are not listed, a key that is echoed, and a Hermes after another
// hop, which is known by what it says of its models or of keys.
func TestOddAgents(t *testing.T) {
	const boom = "answers with status 500: “boom”"
	broken := status(500, "", "", `{"error": {"message": "boom", "code": 500}}`)
	withKey := func(then http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "" {
				then(w, r)
				return
			}
			w.WriteHeader(http.StatusUnauthorized)
		}
	}
	echo := func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"error": {"message": "no such key: %s", "code": "gateway_auth_failed"}}`, r.Header.Get("Authorization"))
	}
	hop := status(200, "Via", "1.1 Caddy", `{"platform": "hermes-agent", "version": "dev"}`)
	for _, c := range []struct {
		needed, path string
		serve        http.HandlerFunc // of the path
		check        string
		level        Level
		says         string
	}{
		{"", "/v1/models", broken, "key", Fail, "/v1/models " + boom},
		{"", "/v1/models", withKey(broken), "key", Fail, "/v1/models with the key " + boom},
		{"", "/v1/models", withKey(abort), "key", Fail, "/v1/models with the key: it accepts the connection"},
		{"", "/v1/models", abort, "models", Fail, "/v1/models: it accepts the connection"},
		{"", "/v1/models", echo, "key", Fail, "it rejects this key (status 403: “no such key: Bearer [redacted]”"},
		{"", "/health", http.NotFound, "hermes", OK, "/v1/models lists a model that Hermes owns"},
		{key, "/health", http.NotFound, "hermes", OK, "/v1/models rejects requests in Hermes' own words"},
		{"", "/health", hop, "hermes", Warn, "a Caddy stands in front of it"},
		{"", "/health", hop, "version", Info, "“dev”, which is not a release"},
	} {
		f := &fake{dir: "g3-v0.20.3", key: c.needed, serve: map[string]http.HandlerFunc{c.path: c.serve}}
		a := testDoctor(f.start(t), key).examined(t)
		if !slices.ContainsFunc(a.Findings, func(f Finding) bool {
			return f.Check == c.check && f.Level == c.level && strings.HasPrefix(f.Says, c.says)
		}) {
			t.Errorf("%s of %s: %+v, want %q", c.check, c.path, a.Findings, c.says)
		}
	}
}

// TestStrangersGetNoKey, and are told from Hermes.
func TestStrangersGetNoKey(t *testing.T) {
	const listed = `{"object":"list","data":[{"id":"llama","object":"model","owned_by":"library"}]}`
	page, models := status(200, "", "", "<!doctype html><title>Chat</title>"), status(200, "", "", listed)
	elsewhere := status(302, "Location", "https://elsewhere.invalid/?token=abc123def456", "")
	const other = "an OpenAI-compatible server answers, but not Hermes"
	for _, c := range []struct {
		health, models http.HandlerFunc
		says           string
	}{
		{page, page, "a web page answers, not Hermes"},
		{http.NotFound, models, other},
		{status(200, "", "", `{"status": "ok"}`), models, other},
		{status(200, "", "", "{"), status(200, "", "", `{"object":"list","data":[]}`), other},
		{elsewhere, elsewhere, "it redirects (status 302) to “https://elsewhere.invalid"},
		{status(502, "", "", `{"error":{"message":"the agent could not be reached"}}`), http.NotFound,
			"a proxy answers (status 502) and does not reach Hermes: “the agent could not be reached”"},
		{status(401, "", "", ""), status(401, "", "", `{"error":{"code":"invalid_api_key"}}`),
			"something asks for credentials (status 401) before it identifies itself"},
		{http.NotFound, http.NotFound, "something else answers: /health has status 404, /v1/models 404"},
	} {
		f := &fake{serve: map[string]http.HandlerFunc{"/health": c.health, "/v1/models": c.models}}
		d := testDoctor(f.start(t), key)
		d.ask = true
		a := d.examined(t)
		a.expect(t, c.says, "hermes", Fail, c.says)
		if strings.Contains(a.finding("hermes").Says, "abc123def456") {
			t.Errorf("%s: the secret is quoted", c.says)
		}
		if seen, keys := f.requests(); strings.Join(keys, "") != "" || len(seen) != 2 || len(a.Repairs) != 0 {
			t.Errorf("%s: requests %q with %q; repairs %v", c.says, seen, keys, a.Repairs)
		}
	}
}

// TestWhoElseReachesThePort: on this machine's own addresses, and only by a connection.
func TestWhoElseReachesThePort(t *testing.T) {
	for _, c := range []struct {
		key    string
		others bool // reach the port
		own    []string
		level  Level
		says   string
	}{
		{"", true, []string{"127.0.0.2"}, Fail, "accepts connections on 127.0.0.2, and no key is needed"},
		{key, true, []string{"127.0.0.2", "127.0.0.3"}, Info, "accepts connections on 127.0.0.2; a key is needed there"},
		{"", false, []string{"127.0.0.2", "127.0.0.3"}, OK, "accepts no connections on 127.0.0.2, 127.0.0.3"},
	} {
		agent, sidecar := (&fake{dir: "g3-v0.20.3", key: c.key}).start(t), (&fake{dir: "g3-v0.20.3", key: c.key}).start(t)
		for check, address := range map[string]string{"network": agent, "through.network": sidecar} {
			_, port, _ := net.SplitHostPort(strings.TrimPrefix(address, "http://"))
			d := testDoctor(agent, c.key)
			d.through, d.ownAddresses = sidecar, own(c.own...)
			if c.others {
				other, err := net.Listen("tcp", "127.0.0.2:"+port)
				if err != nil {
					t.Skip("127.0.0.2 is no address of this machine")
				}
				defer other.Close() // it accepts, and says nothing
			}
			a := d.examined(t)
			a.expect(t, c, check, c.level, "port "+port+" "+c.says)
		}
	}
	f := &fake{dir: "g3-v0.20.3"}
	d := testDoctor(f.start(t), "")
	d.ownAddresses = func() ([]netip.Addr, error) { return nil, fmt.Errorf("not allowed") }
	d.examined(t).expect(t, "unknown", "network", Info, "cannot tell whether other machines can reach it: not allowed")
}

// TestAgentsOfOtherMachines are open to them, and their connections are not encrypted.
func TestAgentsOfOtherMachines(t *testing.T) {
	for needed, level := range map[string]Level{"": Fail, key: Info} {
		here := strings.TrimPrefix((&fake{dir: "g3-v0.20.3", key: needed}).start(t), "http://")
		d := testDoctor("hermes.example.com:8642", needed)
		d.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if addr != "hermes.example.com:8642" {
				t.Errorf("connects to %s", addr)
			}
			return new(net.Dialer).DialContext(ctx, network, here)
		}
		a := d.examined(t)
		a.expect(t, needed, "network", level, "it is reached as hermes.example.com")
		a.expect(t, needed, "encryption", Info, "")
	}
}

// TestAgentOnASocket is asked there, and no network reaches it.
func TestAgentOnASocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "h.sock")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Skip(err)
	}
	s := &httptest.Server{Listener: ln, Config: &http.Server{Handler: &fake{dir: "g3-v0.20.3"}}}
	s.Start()
	defer s.Close()
	a := testDoctor("unix/"+socket, "").examined(t)
	a.expect(t, "a socket", "network", OK, "it listens on a Unix socket")
	a.expect(t, "a socket", "version", OK, "0.20.3")
}

// TestHostsOfThisMachine are known by their address, and no name but localhost is looked up.
func TestHostsOfThisMachine(t *testing.T) {
	e := &examination{doctor: testDoctor("", "")}
	e.ownAddresses = own("192.0.2.7")
	for host, want := range map[string]bool{"127.0.0.1": true, "127.1.2.3": true, "::1": true, "localhost": true, "a.Localhost": true, "::ffff:127.0.0.1": true,
		"192.0.2.7": true, "0.0.0.0": true, "10.0.0.1": false, "hermes": false, "localhost.example.com": false} {
		if e.isOwn(host) != want {
			t.Errorf("%s: %v", host, !want)
		}
	}
	all, err := ownAddresses()
	for _, a := range all {
		if err != nil || a.IsLoopback() {
			t.Errorf("%v, %v", a, err)
		}
	}
}

// TestSidecarsThatDoNotWork are told apart.
func TestSidecarsThatDoNotWork(t *testing.T) {
	const boom = `{"error": {"message": "boom"}}`
	for code, c := range map[int]Finding{
		401: {Level: Info, Says: "it asks for credentials (status 401)"},
		404: {Level: Fail, Says: "the server at that address does not forward /health to Hermes (status 404)"},
		502: {Level: Fail, Says: "it answers with status 502: “boom”"},
	} {
		d := testDoctor((&fake{dir: "g3-v0.20.3"}).start(t), "")
		d.through = (&fake{serve: map[string]http.HandlerFunc{"/health": status(code, "", "", boom)}}).start(t)
		d.examined(t).expect(t, code, "through.reachable", c.Level, c.Says)
	}
	for configured, level := range map[bool]Level{true: Warn, false: Fail} {
		d := testDoctor((&fake{dir: "g3-v0.20.3"}).start(t), "")
		d.through = "127.0.0.1:1"
		subjects, err := d.subjects()
		if err != nil {
			t.Fatal(err)
		}
		subjects[0].configured = configured
		d.examine(t.Context(), subjects[0]).expect(t, configured, "through.reachable", level, "the connection is refused")
	}
}

// TestExaminationThatIsCancelled ends.
func TestExaminationThatIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d := testDoctor((&fake{dir: "g3-v0.20.3"}).start(t), "")
	subjects, _ := d.subjects()
	if r := newReport(d.examine(ctx, subjects[0])); r.Result != resultProblems {
		t.Errorf("%+v", r)
	}
}
