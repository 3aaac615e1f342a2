package doctor

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/internal/caddytest"
)

const key = "of-this-test-and-nothing-else"

// options of an examination in a test: a busy machine may answer late, no other machine
// reaches this one, and time stands still.
func testOptions() Options {
	return Options{
		Timeout: caddytest.Patience, AskTimeout: caddytest.Patience,
		OwnAddresses: func() ([]netip.Addr, error) { return nil, nil },
		Now:          func() time.Time { return time.Unix(0, 0) },
	}
}

// examine examines what is at an address, and fails if the key is in the report.
func examine(t testing.TB, address string, o Options) Agent {
	t.Helper()
	target, err := ParseTarget(address)
	if err != nil {
		t.Fatal(err)
	}
	a := Examine(context.Background(), target, "--to", o)
	text, object := texts(t, NewReport(a))
	if o.Key != "" && strings.Contains(text+object, o.Key) {
		t.Errorf("the key is in the report:\n%s", text)
	}
	return a
}

// A fake is a Hermes that answers with recordings. It counts requests.
type fake struct {
	dir      string // of recordings
	scenario string // of the chat, such as one_tool
	key      string // "" for none
	stream   []byte // instead of the scenario's
	serve    map[string]http.HandlerFunc
	seen     []string
	keys     []string
}

// start starts the server and returns its address.
func (f *fake) start(t testing.TB) string {
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s.URL
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.seen, f.keys = append(f.seen, r.Method+" "+r.URL.Path), append(f.keys, r.Header.Get("Authorization"))
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
	if err != nil {
		panic(err)
	}
	if name, is := strings.CutSuffix(file, ".sse"); is {
		header, err := os.ReadFile(filepath.Join(captures, f.dir, name+".headers"))
		if err != nil {
			panic(err)
		}
		if f.stream != nil {
			b = f.stream
		}
		b = append(append(bytes.TrimRight(header, "\r\n"), "\r\n\r\n"...), b...)
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
	var status int
	fmt.Sscanf(string(head), "HTTP/1.1 %d", &status)
	w.WriteHeader(status)
	for frame := range bytes.SplitAfterSeq(body, []byte("\n\n")) {
		w.Write(frame)
		w.(http.Flusher).Flush()
	}
}

// TestReportsOfAgents of every generation are those in testdata: with a key, and with one
// chat request.
func TestReportsOfAgents(t *testing.T) {
	for _, dir := range []string{"gm1-v0.6.0", "g0-v0.8.0", "g1-v0.9.0", "g2-v0.13.0", "g3-v0.20.3"} {
		f := &fake{dir: dir, scenario: "one_tool", key: key}
		address := f.start(t)
		o := testOptions()
		o.Ask, o.Key = true, key
		a := examine(t, address, o)
		text, object := texts(t, NewReport(a))
		neutral := strings.NewReplacer(address, "http://127.0.0.1:8642")
		golden(t, "agent-"+dir+".txt", neutral.Replace(text))
		if dir == "g3-v0.20.3" {
			golden(t, "agent-"+dir+".json", neutral.Replace(object))
		}
		if a.failed() {
			t.Errorf("%s has problems:\n%s", dir, text)
		}
		chats := strings.Count(strings.Join(f.seen, "\n"), "POST")
		if chats != 1 || len(f.seen) > 4 {
			t.Errorf("%s: requests %q", dir, f.seen)
		}
	}
}

// TestGenerationsOfAgents without a chat request.
func TestGenerationsOfAgents(t *testing.T) {
	for dir, want := range map[string]string{
		"g0-v0.8.0":  "G-1 G0 G1 G2", // /health names no version
		"g3-v0.20.3": "G3",
	} {
		f := &fake{dir: dir}
		a := examine(t, f.start(t), testOptions())
		if got := strings.Join(a.Generations, " "); got != want {
			t.Errorf("%s: %q, want %q", dir, got, want)
		}
		for _, r := range f.seen {
			if !strings.HasPrefix(r, "GET ") {
				t.Errorf("%s: %q", dir, f.seen)
			}
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
		{key, key, OK, "it needs a key, and takes this one"},
		{key, "another-key-of-this-test", Fail, "it refuses this key (status 401: “Invalid gateway API key"},
		{key, "", Fail, "it needs a key (status 401), and none is given"},
		{"", key, Warn, "it answers without a key"},
		{"", "", Warn, "it answers without a key"},
	} {
		f := &fake{dir: "g3-v0.20.3", scenario: "plain", key: c.needed}
		o := testOptions()
		o.Key, o.Ask = c.given, true
		a := examine(t, f.start(t), o)
		if got := a.finding(t, "key"); got.Level != c.level || !strings.HasPrefix(got.Says, c.says) {
			t.Errorf("%+v: %+v", c, got)
		}
		asked := strings.Contains(strings.Join(f.seen, "\n"), "POST")
		if asked != (c.level != Fail) {
			t.Errorf("%+v: requests %q", c, f.seen)
		}
		// What to do comes first: of an agent that refuses the key, nothing else is listed.
		if listed := len(a.Repairs)+len(a.Options) > 0; listed != (c.level != Fail) || a.Releases != "0.20.3" {
			t.Errorf("%+v: %+v", c, a)
		}
		if f.keys[0] != "" || f.keys[1] != "" {
			t.Errorf("%+v: the key is sent before it is known who answers: %q", c, f.keys)
		}
	}
}

// TestStrangersGetNoKey, and are told from Hermes.
func TestStrangersGetNoKey(t *testing.T) {
	page := func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "<!doctype html><title>Chat</title>") }
	models := func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"object":"list","data":[{"id":"llama","object":"model","owned_by":"library"}]}`)
	}
	status := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "https://elsewhere.invalid/?token=abc123def456")
			w.WriteHeader(code)
			fmt.Fprint(w, body)
		}
	}
	for _, c := range []struct {
		health, models http.HandlerFunc
		says           string
	}{
		{page, page, "a web page answers, not Hermes"},
		{http.NotFound, models, "an OpenAI-compatible server answers, but not Hermes"},
		{status(200, `{"status": "ok"}`), models, "an OpenAI-compatible server answers, but not Hermes"},
		{status(302, ""), status(302, ""), "it redirects (status 302) to “https://elsewhere.invalid"},
		{status(502, `{"error":{"message":"the agent could not be reached"}}`), http.NotFound, "a proxy answers (status 502) and does not reach Hermes: “the agent could not be reached”"},
		{status(401, ""), status(401, `{"error":{"code":"invalid_api_key"}}`), "something asks for credentials (status 401) before it says who it is"},
		{http.NotFound, http.NotFound, "something else answers: /health has status 404, /v1/models 404"},
		{status(200, "{"), status(200, `{"object":"list","data":[]}`), "an OpenAI-compatible server"},
	} {
		f := &fake{serve: map[string]http.HandlerFunc{"/health": c.health, "/v1/models": c.models}}
		o := testOptions()
		o.Key, o.Ask = key, true
		a := examine(t, f.start(t), o)
		if got := a.finding(t, "hermes"); got.Level != Fail || !strings.HasPrefix(got.Says, c.says) || strings.Contains(got.Says, "abc123def456") {
			t.Errorf("%s: %+v", c.says, got)
		}
		if strings.Join(f.keys, "") != "" || len(f.seen) != 2 || len(a.Repairs) != 0 {
			t.Errorf("%s: requests %q with %q; repairs %v", c.says, f.seen, f.keys, a.Repairs)
		}
	}
}

// TestHermesBehindAnotherHop is known by what it says of its models or of keys.
func TestHermesBehindAnotherHop(t *testing.T) {
	for needed, says := range map[string]string{"": "/v1/models lists a model that Hermes owns", key: "/v1/models refuses in Hermes' own words"} {
		f := &fake{dir: "g3-v0.20.3", key: needed, serve: map[string]http.HandlerFunc{"/health": http.NotFound}}
		if got := examine(t, f.start(t), testOptions()).finding(t, "hermes"); got.Level != OK || got.Says != says {
			t.Errorf("%+v", got)
		}
	}
	f := &fake{dir: "g3-v0.20.3", serve: map[string]http.HandlerFunc{"/health": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Via", "1.1 Caddy")
		fmt.Fprint(w, `{"platform": "hermes-agent", "version": "dev"}`)
	}}}
	a := examine(t, f.start(t), testOptions())
	if text, _ := texts(t, NewReport(a)); !strings.Contains(text, "warn  hermes             a Caddy stands in front of it") || !strings.Contains(text, "“dev”, which is no release") {
		t.Error(text)
	}
	if got := strings.Join(a.Generations, " "); got != "G2 G3 G4 G5" {
		t.Errorf("a version that is no release: %s", got)
	}
}

// TestEchoedKeysAreTakenOut of everything that an agent says.
func TestEchoedKeysAreTakenOut(t *testing.T) {
	echo := func(w http.ResponseWriter, r *http.Request) {
		given := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"error": {"message": "no \u001b[31m such key: %s", "code": "gateway_auth_failed"}}`, given)
	}
	f := &fake{dir: "g3-v0.20.3", serve: map[string]http.HandlerFunc{"/v1/models": echo}}
	o := testOptions()
	o.Key = key
	got := examine(t, f.start(t), o).finding(t, "key")
	if !strings.Contains(got.Says, "such key: [redacted]") || strings.ContainsAny(got.Says, "\x1b\n") {
		t.Errorf("%+v", got)
	}
}

// TestOthersThatReachThePort: on this machine's own addresses, and only by a connection.
func TestOthersThatReachThePort(t *testing.T) {
	if ln, err := net.Listen("tcp", "127.0.0.2:0"); err != nil {
		t.Skip("127.0.0.2 is no address of this machine")
	} else {
		ln.Close()
	}
	for _, c := range []struct {
		key, listen string
		own         []string
		level       Level
		says        string
	}{
		{"", "127.0.0.2", []string{"127.0.0.2"}, Fail, "takes connections on 127.0.0.2, and no key is needed"},
		{key, "127.0.0.2", []string{"127.0.0.2", "127.0.0.3"}, Info, "takes connections on 127.0.0.2; a key is needed there"},
		{"", "", []string{"127.0.0.2", "127.0.0.3"}, OK, "takes no connections on 127.0.0.2, 127.0.0.3"},
		{"", "", nil, OK, "this machine has no address that others could connect to"},
	} {
		f := &fake{dir: "g3-v0.20.3", key: c.key}
		address := f.start(t)
		if c.listen != "" {
			other, err := net.Listen("tcp", net.JoinHostPort(c.listen, address[strings.LastIndex(address, ":")+1:]))
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close() // it accepts, and says nothing
		}
		o := testOptions()
		o.Key = c.key
		o.OwnAddresses = func() (own []netip.Addr, err error) {
			for _, a := range c.own {
				own = append(own, netip.MustParseAddr(a))
			}
			return own, nil
		}
		if got := examine(t, address, o).finding(t, "network"); got.Level != c.level || !strings.Contains(got.Says, c.says) {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

// TestSidecarThatOthersReach in front of an agent that only this machine reaches.
func TestSidecarThatOthersReach(t *testing.T) {
	for needed, level := range map[string]Level{"": Fail, key: Info} {
		agent := (&fake{dir: "g3-v0.20.3", key: needed}).start(t)
		sidecar := (&fake{dir: "g3-v0.20.3", key: needed}).start(t)
		port := sidecar[strings.LastIndex(sidecar, ":")+1:]
		other, err := net.Listen("tcp", "127.0.0.2:"+port)
		if err != nil {
			t.Skip("127.0.0.2 is no address of this machine")
		}
		defer other.Close()
		o := testOptions()
		o.Key, o.Through = needed, &Through{Target: target(t, sidecar)}
		o.OwnAddresses = func() ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr("127.0.0.2")}, nil }
		a := examine(t, agent, o)
		if got := a.finding(t, "through.network"); got.Level != level || !strings.Contains(got.Says, "port "+port+" takes connections on 127.0.0.2") {
			t.Errorf("%+v", got)
		}
		if got := a.finding(t, "network"); got.Level != OK {
			t.Errorf("%+v", got)
		}
	}
}

// TestAgentsOfOtherMachines are open to them, and their connections are not encrypted.
func TestAgentsOfOtherMachines(t *testing.T) {
	for needed, level := range map[string]Level{"": Fail, key: Info} {
		f := &fake{dir: "g3-v0.20.3", key: needed}
		here := strings.TrimPrefix(f.start(t), "http://")
		o := testOptions()
		o.Key = needed
		o.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if addr != "hermes.example.com:8642" {
				t.Errorf("connects to %s", addr)
			}
			return new(net.Dialer).DialContext(ctx, network, here)
		}
		a := examine(t, "hermes.example.com:8642", o)
		if got := a.finding(t, "network"); got.Level != level {
			t.Errorf("%+v", got)
		}
		a.finding(t, "encryption")
	}
}
