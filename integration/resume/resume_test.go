// Package resume has the tests of answers that outlive their connections: hermes_resume in
// the built binary, with real sockets, in every protocol, across reloads and at the end of
// the process.
package resume

import (
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/metrics"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

const (
	key       = "Idempotency-Key"
	lastEvent = "Last-Event-ID"
	stream    = "X-Hermes-Stream"
)

// site is a Caddyfile whose site on the address has the directives; global options may be
// added.
func site(listen, global, directives string) string {
	return "{\n\tauto_https off\n\t" + global + "\n}\n" + listen + " {\n\tbind 127.0.0.1\n\t" + directives + "\n}\n"
}

// run starts a sidecar with the directives in front of up, and returns its URL.
func run(t *testing.T, up *upstream.Server, global, directives string) (base string, s *sidecar.Process) {
	t.Helper()
	listen := harness.FreePort(t)
	if !strings.Contains(global, "admin ") {
		global += "\n\tadmin off"
	}
	return "http://" + listen, sidecar.RunCaddyfile(t, t.TempDir(), site("http://"+listen, global, directives+"\n\treverse_proxy "+up.Addr))
}

// frame reads one frame, to its blank line; "" at the end. It does not decode it as
// package strict does, which knows no ids.
func frame(t *testing.T, r *client.Reply) string {
	t.Helper()
	var b strings.Builder
	for {
		line, err := r.In.ReadString('\n')
		b.WriteString(line)
		if err == io.EOF && b.Len() == 0 {
			return ""
		}
		if err != nil {
			t.Fatalf("instead of a frame: %q, %v", b.String(), err)
		}
		if line == "\n" {
			return b.String()
		}
	}
}

// TestCutsInEveryProtocol has clients leave at every event of recordings, and come back
// after it: they have then what a client gets that stays. Keepalives are between,
// and upstream is asked once.
func TestCutsInEveryProtocol(t *testing.T) {
	recordings := hermes.Recordings(t, func(r hermes.Recording) bool { return hermes.Chats(r) && len(r.Body) < 8<<10 })
	scripts := upstream.Library(recordings, upstream.ByFrame)
	up := upstream.New(t, scripts.Play)
	dir, pool := client.Certificate(t)
	listen := harness.FreePort(t)
	sidecar.RunCaddyfile(t, t.TempDir(), site("https://"+listen, "admin off",
		"tls "+dir+"/cert.pem "+dir+"/key.pem\n\thermes_resume\n\thermes {\n\t\tkeepalive 1ms\n\t}\n\treverse_proxy "+up.Addr))
	random := rand.New(rand.NewPCG(5, 6))
	asked := 0
	for protocol, transport := range client.Protocols(t, pool) {
		t.Run(protocol, func(t *testing.T) {
			c := client.Over(t, transport, "https://"+listen)
			for i, r := range recordings {
				if i%3 != 0 && testing.Short() {
					continue
				}
				name := r.String()
				asked++
				first := c.Play(name, key, protocol+name)
				if first.Proto != protocol {
					t.Fatalf("spoken is %s", first.Proto)
				}
				id := first.Header.Get(stream)
				if id == "" {
					t.Fatalf("%s: no id", name)
				}
				// The client leaves after each event, or after some.
				got, since := "", "" // since the last event: comments, which come again
				live, n := first, 0
				for {
					e := frame(t, live)
					if e == "" {
						break
					}
					since += e
					if strings.Contains(e, "id: "+id+"/") {
						got, since = got+since, ""
						n++
					}
					if random.IntN(2) == 0 && !strings.Contains(e, "[DONE]") {
						live.Leave()
						since = ""
						live = c.Chat(lastEvent, fmt.Sprintf("%s/%d", id, n))
						if live.StatusCode != http.StatusOK {
							t.Fatalf("%s: %s", name, live.Status)
						}
					}
				}
				again := c.Play(name, key, protocol+name)
				if again.Header.Get("Idempotency-Replayed") != "true" || again.Header.Get(stream) != id {
					t.Errorf("%s: header %v", name, again.Header)
				}
				if whole := again.All(); got+since != whole {
					t.Fatalf("%s: with cuts it is\n%s\nwant\n%s", name, got+since, whole)
				}
			}
		})
	}
	if n := len(up.Requests()); n != asked {
		t.Errorf("upstream was asked %d times, want %d", n, asked)
	}
}

// held is a script that sends a text, waits, and finishes.
func held(rest <-chan struct{}) upstream.Script {
	return upstream.Chat(hermes.Says("Hello"), hermes.Waits(rest), hermes.Says(" world"))
}

// hello is what held sends without waiting.
var hello = upstream.Chat(hermes.Says("Hello"), hermes.Says(" world"))

// reloadable starts a sidecar in front of up, and returns a client of it, what loads other directives, and
// the process.
func reloadable(t *testing.T, up *upstream.Server, directives string) (c *client.Client, reload func(directives string), s *sidecar.Process) {
	t.Helper()
	admin, listen := harness.FreePort(t), harness.FreePort(t)
	config := func(directives string) string {
		return site("http://"+listen, "admin "+admin, strings.ReplaceAll(directives, "UPSTREAM", "reverse_proxy "+up.Addr))
	}
	s = sidecar.RunCaddyfile(t, t.TempDir(), config(directives))
	c = client.New(t, "http://"+listen)
	c.Reloading = true
	return c, func(directives string) {
		t.Helper()
		r := client.New(t, "http://"+admin).Send(http.MethodPost, "/load", strings.NewReader(config(directives)), "Content-Type", "text/caddyfile")
		if body := r.All(); r.StatusCode != http.StatusOK {
			t.Fatalf("reload: %s %s", r.Status, body)
		}
	}, s
}

// TestLeaveAndReload has a stream go on without its client across reloads, also one by
// which the directive goes for a while.
func TestLeaveAndReload(t *testing.T) {
	rest := make(chan struct{})
	up := upstream.New(t, held(rest))
	const behind = "\n\thermes\n\tUPSTREAM"
	c, reload, _ := reloadable(t, up, "hermes_resume"+behind)
	first := c.Chat(key, "k")
	id := first.Header.Get(stream)
	got := frame(t, first) + frame(t, first)
	first.Leave()
	reload("hermes_resume {\n\t\tkeep 1h\n\t}" + behind)
	reload("header X-Nothing 1" + behind)
	reload("hermes_resume" + behind)
	close(rest)
	got += c.Chat(lastEvent, id+"/2").All()
	if whole := c.Chat(key, "k").All(); got != whole || !strings.Contains(got, " world") || !strings.Contains(got, "[DONE]") {
		t.Errorf("got\n%s\nwant\n%s", got, whole)
	}
	if n := len(up.Requests()); n != 1 {
		t.Errorf("upstream was asked %d times", n)
	}
}

// TestShutdown ends streams as hermes does, those without a client as well: the
// process waits until it has.
func TestShutdown(t *testing.T) {
	for name, hermes := range map[string]string{
		"hermes behind it":  "hermes {\n\t\tdrain_timeout 1s\n\t}",
		"nothing behind it": "",
	} {
		t.Run(name, func(t *testing.T) {
			up := upstream.New(t, held(nil))
			base, s := run(t, up, "grace_period 3s", "hermes_resume\n\t"+hermes)
			c := client.New(t, base)
			left := c.Chat(key, "left")
			frame(t, left)
			left.Leave()
			stays := c.Chat(key, "stays")
			frame(t, stays)
			s.Terminate()
			if rest := stays.All(); !strings.Contains(rest, `"code":"shutting_down"`) || !strings.HasSuffix(rest, "data: [DONE]\nid: "+stays.Header.Get(stream)+"/5\n\n") {
				t.Errorf("the end is\n%s", rest)
			}
			s.Exit()
			if n := len(up.Requests()); n != 2 {
				t.Errorf("upstream was asked %d times", n)
			}
		})
	}
}

// TestShutdownWhenTheDirectiveIsGone gives a stream without a client its time as well.
func TestShutdownWhenTheDirectiveIsGone(t *testing.T) {
	const behind = "\n\thermes {\n\t\tdrain_timeout 500ms\n\t}\n\tUPSTREAM"
	left := make(chan time.Time, 1)
	up := upstream.New(t, func(x *upstream.Exchange) {
		x.Begin("Hello")
		x.Silence()
		left <- time.Now()
	})
	c, reload, s := reloadable(t, up, "hermes_resume"+behind)
	first := c.Chat(key, "k")
	frame(t, first)
	first.Leave()
	reload("header X-Nothing 1" + behind)
	began := time.Now()
	s.Terminate()
	if took := (<-left).Sub(began); took < 500*time.Millisecond {
		t.Errorf("upstream was left after %v", took)
	}
	s.Exit()
}

// passwordHash is one of "secret".
const passwordHash = "$2a$04$CZKEu/vcJou9IpBT4zBkMObH5h/bK3A2/n7lvM0GFd/SC5bYDpTBm"

// basic returns the credentials of a user whose password is "secret".
func basic(user string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":secret"))
}

// statuses returns what each way to a stream answers a client with the credentials: the
// same request again, a POST and a GET after an event, and DELETE, which comes last.
func statuses(t *testing.T, c *client.Client, id, credentials string) (all [4]int) {
	t.Helper()
	all[0] = leave(c.Chat(key, "k", "Authorization", credentials))
	all[1] = leave(c.Chat(lastEvent, id+"/1", "Authorization", credentials))
	for i, method := range []string{http.MethodGet, http.MethodDelete} {
		all[2+i] = leave(c.Send(method, "/v1/chat/completions/"+id, nil, "Authorization", credentials))
	}
	return all
}

// leave returns the status of an answer that the test does not need.
func leave(r *client.Reply) int {
	r.Leave()
	return r.StatusCode
}

// TestRevokedCredentialsGetNothing where basic_auth checks them: Caddy orders it in front of
// hermes_resume, so that it is asked for a stream that is kept as well.
func TestRevokedCredentialsGetNothing(t *testing.T) {
	rest := make(chan struct{})
	up := upstream.New(t, held(rest))
	config := func(users ...string) string {
		return "hermes_resume\n\thermes\n\tUPSTREAM\n\tbasic_auth {\n\t\t" + strings.Join(users, " "+passwordHash+"\n\t\t") + " " + passwordHash + "\n\t}"
	}
	c, reload, _ := reloadable(t, up, config("alice", "bob"))
	first := c.Chat(key, "k", "Authorization", basic("alice"))
	id := first.Header.Get(stream)
	frame(t, first)
	frame(t, first)
	first.Leave()
	again := c.Chat(lastEvent, id+"/1", "Authorization", basic("alice"))
	if again.StatusCode != http.StatusOK {
		t.Fatalf("alice: %s", again.Status)
	}
	again.Leave()
	reload(config("bob"))
	if got, want := statuses(t, c, id, basic("alice")), [4]int{401, 401, 401, 401}; got != want {
		t.Errorf("alice, who may not come any more: %d, want %d", got, want)
	}
	if got, want := statuses(t, c, id, basic("bob")), [4]int{200, 404, 404, 404}; got != want { // the key is his own
		t.Errorf("bob: %d, want %d", got, want)
	}
	reload(config("alice", "bob"))
	if got, want := statuses(t, c, id, basic("alice")), [4]int{200, 200, 200, 204}; got != want {
		t.Errorf("alice, who may come again: %d, want %d", got, want)
	}
	close(rest)
	if n := len(up.Requests()); n != 2 {
		t.Errorf("upstream was asked %d times, want once for each user", n)
	}
}

// TestChecksBehindAreNotAskedAgain, as docs/resume.md says.
func TestChecksBehindAreNotAskedAgain(t *testing.T) {
	up := upstream.New(t, hello)
	config := func(user string) string {
		return "route {\n\t\thermes_resume\n\t\tbasic_auth {\n\t\t\t" + user + " " + passwordHash + "\n\t\t}\n\t\thermes\n\t\tUPSTREAM\n\t}"
	}
	c, reload, _ := reloadable(t, up, config("alice"))
	if r := c.Chat(key, "k", "Authorization", basic("mallory")); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("mallory: %s", r.Status)
	}
	first := c.Chat(key, "k", "Authorization", basic("alice"))
	id := first.Header.Get(stream)
	first.All()
	reload(config("bob"))
	if got, want := statuses(t, c, id, basic("alice")), [4]int{200, 200, 200, 204}; got != want {
		t.Errorf("alice: %d, want %d", got, want)
	}
	if r := c.Chat(key, "k", "Authorization", basic("alice")); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("alice, for whom upstream would have to be asked: %s", r.Status)
	}
}

// TestAccessLogOfKeysAndIDs has what docs/resume.md says, and not with the filter from there.
func TestAccessLogOfKeysAndIDs(t *testing.T) {
	for name, filter := range map[string]string{"without a filter": "log", "with the filter": filterOfPage(t)} {
		t.Run(name, func(t *testing.T) {
			up := upstream.New(t, hello)
			base, s := run(t, up, "", filter+"\n\thermes_resume\n\thermes")
			c := client.New(t, base)
			first := c.Chat(key, "the-key", "Authorization", "Bearer the-secret")
			id := first.Header.Get(stream)
			first.All()
			c.Chat(lastEvent, id+"/1", "Authorization", "Bearer the-secret").All()
			_, body := client.Get(t, c.HTTP, base+"/v1/chat/completions/"+id, "Authorization", "Bearer the-secret")
			if body == "" {
				t.Error("GET got nothing")
			}
			if !s.Await(`"hermes_resumed":"begun"`) || !s.Await(`"hermes_resumed":"continued"`) || !s.Await(`"hermes_resumed":"replayed"`) {
				t.Fatalf("not all lines are in the log\n%s", s.Log)
			}
			log := s.Log.String()
			if strings.Contains(log, "the-secret") {
				t.Errorf("credentials are in the log\n%s", log)
			}
			for _, what := range []string{"the-key", id} {
				if got, want := strings.Contains(log, what), filter == "log"; got != want {
					t.Errorf("%s is in the log: %v, want %v\n%s", what, got, want, log)
				}
			}
		})
	}
}

// filterOfPage returns the log with a filter that docs/resume.md shows.
func filterOfPage(t *testing.T) string {
	t.Helper()
	_, rest, _ := strings.Cut(harness.ReadFile(t, harness.Path("docs/resume.md")), "```caddyfile\nlog {")
	filter, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("no filter in docs/resume.md")
	}
	return "log {" + filter
}

// TestMaxRequestOfHermesBoundsBoth: a request above max_request passes, and its answer is not
// kept. hermes_resume has no bound of its own, and follows a reload.
func TestMaxRequestOfHermesBoundsBoth(t *testing.T) {
	up := upstream.New(t, hello)
	c, reload, _ := reloadable(t, up, "hermes_resume\n\thermes {\n\t\tmax_request 2KB\n\t}\n\tUPSTREAM")
	check := func(k string, size int, kept bool) {
		t.Helper()
		const before, after = `{"stream":true,"messages":[{"role":"user","content":"`, `"}]}`
		body := before + strings.Repeat("x", size-len(before)-len(after)) + after
		r := c.Send(http.MethodPost, "/v1/chat/completions", strings.NewReader(body), key, k)
		if id, answer := r.Header.Get(stream), r.All(); (id != "") != kept || !strings.Contains(answer, " world") {
			t.Errorf("%d bytes: the stream has the id %q, and is\n%s", size, id, answer)
		}
	}
	check("a", 2000, true)
	check("b", 2001, false)
	reload("hermes_resume\n\thermes {\n\t\tmax_request 20MB\n\t}\n\tUPSTREAM")
	check("c", 20_000_000, true)
	check("d", 20_000_001, false)
	reload("hermes_resume\n\tUPSTREAM")
	check("e", 10_000_000, true)
	check("f", 10_000_001, false)
	if n := len(up.Requests()); n != 6 {
		t.Errorf("upstream was asked %d times", n)
	}
}

// TestWhatCanBeSeen of a stream that is begun, left, continued and repeated: in the access
// log, in the metrics, in the list of the admin API and in the log.
func TestWhatCanBeSeen(t *testing.T) {
	rest := make(chan struct{})
	up := upstream.New(t, held(rest))
	admin, listen := harness.FreePort(t), harness.FreePort(t)
	s := sidecar.RunCaddyfile(t, t.TempDir(), site("http://"+listen, "admin "+admin,
		"log\n\tmetrics /metrics\n\tlog_append seen_outcome {http.hermes.outcome}\n\tlog_append seen_resumed {http.hermes.resumed}\n\thermes_resume\n\thermes\n\treverse_proxy "+up.Addr))
	c := client.New(t, "http://"+listen)
	readers := func() string {
		_, body := client.Get(t, http.DefaultClient, "http://"+admin+"/hermes/streams")
		var list struct {
			Open []struct{ Readers *int }
		}
		if err := json.Unmarshal([]byte(body), &list); err != nil || len(list.Open) != 1 || list.Open[0].Readers == nil {
			return body
		}
		return fmt.Sprint(*list.Open[0].Readers)
	}
	first := c.Chat(key, "k")
	id := first.Header.Get(stream)
	frame(t, first)
	frame(t, first)
	if got := readers(); got != "1" {
		t.Errorf("readers: %s", got)
	}
	first.Leave()
	if !s.Await(`"hermes_resumed":"begun"`) {
		t.Fatalf("the first client is not in the log\n%s", s.Log)
	}
	if got := readers(); got != "0" {
		t.Errorf("readers: %s", got)
	}
	f := metrics.Scrape(t, "http://"+listen+"/metrics")
	for name, want := range map[string]float64{
		"caddy_hermes_resume_readers": 0, "caddy_hermes_resume_detached": 1, "caddy_hermes_resume_streams": 1,
		"caddy_hermes_resume_detached_total": 1,
	} {
		m := f[name].GetMetric()[0]
		if got := m.GetGauge().GetValue() + m.GetCounter().GetValue(); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if m := f["caddy_hermes_resume_bytes"].GetMetric()[0]; m.GetGauge().GetValue() < 1000 {
		t.Errorf("%v bytes", m.GetGauge().GetValue())
	}
	close(rest)
	if !s.Await("stream ended without clients") {
		t.Errorf("its end is not in the log\n%s", s.Log)
	}
	c.Chat(lastEvent, id+"/1").All()
	c.Chat(key, "k").All()
	whole := c.Chat(key, "another").All() // which stays to the end
	if !strings.Contains(whole, "[DONE]") {
		t.Errorf("%q", whole)
	}
	for _, line := range []string{`"hermes_resumed":"continued"`, `"hermes_resumed":"replayed"`, `"seen_resumed":"begun"`, `"seen_outcome":"ok"`, `"hermes_outcome":"ok"`} {
		if !s.Await(line) {
			t.Errorf("no %s in the log\n%s", line, s.Log)
		}
	}
	if n := len(up.Requests()); n != 2 {
		t.Errorf("upstream was asked %d times", n)
	}
	if strings.Contains(strings.ReplaceAll(s.Log.String(), `X-Hermes-Stream`, ""), `"uri":"/v1/chat/completions/`+id) {
		t.Error("the id is in the log")
	}
}

// TestCompressed has each client's answer compressed for it alone: what is kept is not.
func TestCompressed(t *testing.T) {
	up := upstream.New(t, hello)
	base, _ := run(t, up, "", "encode {\n\t\tminimum_length 1\n\t\tmatch {\n\t\t\theader Content-Type text/event-stream*\n\t\t}\n\t}\n\thermes_resume\n\thermes")
	c := client.New(t, base)
	zipped := c.Chat(key, "k", "Accept-Encoding", "gzip")
	if zipped.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("header %v", zipped.Header)
	}
	unzip := func(r *client.Reply) string {
		z, err := gzip.NewReader(r.In)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	want := unzip(zipped)
	plain := c.Chat(key, "k")
	if body := plain.All(); plain.Header.Get("Content-Encoding") != "" || body != want {
		t.Errorf("%v %q", plain.Header, body)
	}
	again := c.Chat(key, "k", "Accept-Encoding", "gzip")
	if again.Header.Get("Content-Encoding") != "gzip" || unzip(again) != want {
		t.Errorf("header %v", again.Header)
	}
	if n := len(up.Requests()); n != 1 {
		t.Errorf("upstream was asked %d times", n)
	}
}

// TestAgentsAreApart, below paths although each sees the same path, and at sites although a client of one sends
// the Host of the other: a key that was used for one is none of the other's, and neither is an id.
func TestAgentsAreApart(t *testing.T) {
	a, b := upstream.New(t, upstream.Chat(hermes.Says("I am a"))), upstream.New(t, upstream.Chat(hermes.Says("I am b")))
	at, elsewhere := harness.FreePort(t), harness.FreePort(t)
	below := func(prefix, addr string) string {
		return "handle_path " + prefix + "/* {\n\t\thermes_resume\n\t\thermes\n\t\treverse_proxy " + addr + "\n\t}\n\t"
	}
	sidecar.RunCaddyfile(t, t.TempDir(), site(":"+harness.Port(at), "admin off", below("/a", a.Addr)+below("/b", b.Addr))+
		":"+harness.Port(elsewhere)+" {\n\tbind 127.0.0.1\n\t"+below("/a", b.Addr)+"\n}\n")
	ofA := client.New(t, "http://"+at+"/a")
	first := ofA.Chat(key, "k")
	id := first.Header.Get(stream)
	whole := first.All()
	for _, base := range []string{at + "/b", elsewhere + "/a"} {
		ofB := client.New(t, "http://"+base)
		if got := ofB.Chat(key, "k", "Host", at).All(); !strings.Contains(got, "I am b") {
			t.Errorf("b says\n%s", got)
		}
		if status := leave(ofB.Chat(lastEvent, id+"/1", "Host", at)); status != http.StatusNotFound {
			t.Errorf("b: %d", status)
		}
	}
	if got := ofA.Get("/v1/chat/completions/" + id); got != whole {
		t.Errorf("a again:\n%s\nwant\n%s", got, whole)
	}
}

// TestSitesAtSockets: what one site keeps, no other one gives, not even to the same client, which sends the same
// key and the same Host to the socket of either.
func TestSitesAtSockets(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "sockets") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	config, sites := "{\n\tadmin off\n}\n", []string{"first", "second"}
	for i, name := range sites {
		config += fmt.Sprintf("http://:%d {\n\tbind unix/%s\n\thermes_resume\n\thermes\n\treverse_proxy %s\n}\n",
			80+i, filepath.Join(dir, name), upstream.New(t, upstream.Chat(hermes.Says(name))).Addr)
	}
	sidecar.RunCaddyfile(t, t.TempDir(), config)
	for _, header := range [][]string{{key, "a"}, {"X-Stainless-Retry-Count", "0"}, {"X-Stainless-Retry-Count", "1"}} {
		for _, name := range sites {
			c := client.Over(t, &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(dir, name))
			}}, "http://one.example")
			if got := c.Chat(header...).All(); !strings.Contains(got, `"`+name+`"`) {
				t.Errorf("%s: the %s site answers %s", header[0], name, got)
			}
		}
	}
}
