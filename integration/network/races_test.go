package network

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// The races are sought in so many processes, of which each gets so many requests
// from so many clients at once, and is then told to stop under those that are open.
const (
	raceRounds   = 2
	raceRequests = 400
	raceClients  = 16
)

// TestNoRaces has everything that writes to a client, or ends its stream, do so at
// random and at once. A goroutine that looks at what another one changes without
// a lock shows in the log of a binary that is built with the race detector, and
// so does a map that ends the process. HERMES_RACE_SEED repeats a run's requests.
func TestNoRaces(t *testing.T) {
	caddy := sidecar.RaceBinary(t)
	seed := harness.Seed(t, "HERMES_RACE_SEED")
	dir, pool := client.Certificate(t)
	for round := range raceRounds {
		t.Run(strconv.Itoa(round), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, uint64(round)))
			up := upstream.New(t, playRace)
			home := t.TempDir()
			conf := sidecar.Config{Grace: "5s", HTTP: sidecar.Options{"metrics": sidecar.Options{}}, Sites: raceSites(t, r, home)}
			for i := range conf.Sites {
				conf.Sites[i].Upstream, conf.Sites[i].TLS = up.Addr, dir
			}
			cmd := exec.Command(caddy, "run", "--config", conf.Write(t, home))
			cmd.Env = sidecar.Environment(home, "GORACE=halt_on_error=0 exitcode=66")
			s := sidecar.Follow(t, cmd, "serving initial configuration")

			// The last requests are left open, for the drain to end them.
			stop := make(chan struct{})
			all := client.Protocols(t, pool)
			open := race(t, r.Uint64(), []http.RoundTripper{all["HTTP/1.1"], all["HTTP/2.0"]}, conf.Sites, stop)
			<-stop
			s.Terminate()
			open.Wait()
			s.Exit()
		})
	}
}

// raceSites are one of each kind of chain. Access logs are left out: Caddy's read
// how much of a body has come while the transport still reads it.
func raceSites(t *testing.T, r *rand.Rand, home string) []sidecar.Site {
	type object = sidecar.Options
	ms := func(n int) string { return fmt.Sprintf("%dms", n) }
	sites := []sidecar.Site{
		{
			Server: object{"errors": object{"routes": []any{object{"handle": []any{
				object{"handler": "static_response", "body": "{http.request.body} {http.hermes.outcome}"}}}}}},
		},
		{Behind: []any{object{"handler": "timeouts", "write_timeout": 5 * time.Second, "read_timeout": 5 * time.Second, "max_write_chunk": 100}}},
		{ // no timeouts of the server's, which are overridden
			Behind: []any{object{"handler": "timeouts", "write_timeout": 5 * time.Second, "read_timeout": 5 * time.Second}},
			Server: object{"read_idle_timeout": -1, "write_idle_timeout": -1},
		},
		{ // no error route: after encode, Caddy's writes what it may still read
			Before: []any{object{"handler": "encode", "encodings": object{"gzip": object{}}, "minimum_length": 1}},
			Behind: []any{
				object{"handler": "headers", "response": object{"deferred": true, "set": object{"X-Deferred": []string{"1"}}}},
				object{"handler": "request_body", "max_size": 1 << 20},
				object{"handler": "map", "source": "{http.request.uri.path}", "destinations": []string{"{mapped}"}, "defaults": []string{"{http.request.uuid}"}},
			},
			Options: object{"record": filepath.Join(home, "recordings"), "record_max": 1 << 20, "status_line": true, "cards": true},
		},
		{ // runs that outlive their clients, and several clients for one
			Before: []any{object{"handler": "hermes_resume", "always": true, "detach": ms(1 + r.IntN(20)), "keep": ms(1 + r.IntN(20)), "max_detached": 3, "max_stream": 64 << 10, "max_memory": 128 << 10}},
		},
	}
	for i := range sites {
		s := &sites[i]
		s.Listen = harness.FreePort(t)
		s.Options = s.Options.With(object{
			"keepalive": "1ms", "parallel_window": "1ms",
			"first_byte_timeout": ms(5 + r.IntN(30)), "idle_timeout": ms(20 + r.IntN(30)), "stall_timeout": ms(20 + r.IntN(30)),
			"done_grace": ms(1 + r.IntN(10)), "drain_timeout": ms(r.IntN(20)),
		})
		s.Server = s.Server.With(object{"protocols": []string{"h1", "h2"}})
	}
	return sites
}

// race sends the requests, and closes stop when the last of them are under way.
// Whatever they are answered is right: only the process is looked at.
func race(t *testing.T, seed uint64, transports []http.RoundTripper, sites []sidecar.Site, stop chan struct{}) *sync.WaitGroup {
	var all, first sync.WaitGroup
	first.Add(raceClients)
	for worker := range raceClients {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(worker)))
			const each = raceRequests / raceClients
			for n := range each {
				if n == each-1 {
					first.Done()
				}
				ask(t, r, transports[r.IntN(len(transports))], "https://"+sites[r.IntN(len(sites))].Listen)
			}
		})
	}
	go func() { first.Wait(); close(stop) }()
	return &all
}

// racePaths are one of each kind.
var racePaths = []string{"/v1/chat/completions", "/v1/responses", "/v1/runs/run_1/events", "/api/sessions/s1/chat/stream", "/v1/other"}

// ask sends a request, and reads the answer as far as it likes.
func ask(t *testing.T, r *rand.Rand, transport http.RoundTripper, base string) {
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	if r.IntN(4) == 0 { // leaves while it is answered, or before
		time.AfterFunc(time.Duration(r.IntN(20))*time.Millisecond, cancel)
	}
	var body io.Reader = strings.NewReader(`{"stream":` + strconv.FormatBool(r.IntN(4) > 0) +
		`,"messages":[{"role":"assistant","content":"` + "`💻 ls`" + `\nhi"},{"role":"user","content":"` + strings.Repeat("x", r.IntN(5000)) + `"}]}`)
	if r.IntN(4) == 0 {
		body = &slowly{body, r.IntN(3)}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+racePaths[r.IntN(len(racePaths))], body)
	if err != nil {
		t.Error(err)
		return
	}
	req.Header.Set("Content-Type", []string{"application/json", "application/json", "text/plain"}[r.IntN(3)])
	req.Header.Set("X-Seed", strconv.FormatUint(r.Uint64(), 10))
	if r.IntN(2) == 0 { // for hermes_resume
		req.Header.Set("Idempotency-Key", strconv.Itoa(r.IntN(10)))
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return
	}
	defer res.Body.Close()
	if n := r.IntN(8); n > 0 {
		_, _ = io.Copy(io.Discard, res.Body)
	} else {
		_, _ = io.CopyN(io.Discard, res.Body, int64(r.IntN(500)))
	}
}

// slowly reads with a pause of so many milliseconds before each piece.
type slowly struct {
	io.Reader
	ms int
}

// Read implements io.Reader.
func (s *slowly) Read(b []byte) (int, error) {
	time.Sleep(time.Duration(s.ms) * time.Millisecond)
	return s.Reader.Read(b[:min(len(b), 1000)])
}

// playRace answers as the seed of the request says.
func playRace(x *upstream.Exchange) {
	seed, _ := strconv.ParseUint(x.Req.Header.Get("X-Seed"), 10, 64)
	r := rand.New(rand.NewPCG(seed, 0))
	pause := func(most int) {
		if n := r.IntN(most + 1); n > 0 {
			x.Pause(time.Duration(n) * time.Millisecond)
		}
	}
	for range r.IntN(3) {
		x.Header("103 Early Hints", "Link: </a>; rel=preload", "X-Early: 1")
		pause(1)
	}
	switch r.IntN(10) {
	case 0:
		x.Pause(100 * time.Millisecond) // longer than first_byte_timeout
		x.Fin()
		return
	case 1:
		x.Reset()
		return
	case 2:
		upstream.AsJSON("200 OK", `{"object":"chat.completion","choices":[{"message":{"content":"hi"}}],"usage":{"total_tokens":0}}`)(x)
		return
	}
	pause(8)
	announced, sent := raceTrailers(r)
	x.Events(announced...)
	for _, f := range raceFrames(r, x.Req.URL.Path) {
		x.Frame(f...)
		pause(r.IntN(5))
	}
	pause(4) // in which a keepalive looks for trailers
	switch r.IntN(8) {
	case 0:
		x.Torn([]byte(hermes.Role[:20]))
	case 1:
		x.Reset()
	case 2:
		x.Pause(100 * time.Millisecond) // longer than any timeout
		x.Fin()
	case 3:
		x.Fin()
	default:
		x.Raw("0\r\n" + sent + "\r\n")
	}
}

// raceTrailers are trailers, many or few, announced or not: the lines that
// announce them, and those that they are sent as.
func raceTrailers(r *rand.Rand) (announced []string, sent string) {
	n := []int{0, 1, 10, 500}[r.IntN(4)]
	var lines strings.Builder
	names := make([]string, n)
	for i := range n {
		names[i] = fmt.Sprintf("X-Trailer-%d", i)
		fmt.Fprintf(&lines, "%s: %d\r\n", names[i], i)
	}
	if n > 0 && r.IntN(3) > 0 {
		announced = []string{"Trailer: " + strings.Join(names, ", ")}
	}
	if r.IntN(3) == 0 {
		lines.WriteString("X-Unannounced: 1\r\n")
	}
	return announced, lines.String()
}

// raceFrames are some frames of what the path is for or, on half of all, of a
// chat.
func raceFrames(r *rand.Rand, path string) [][]string {
	chat := [][]string{
		hermes.One(hermes.Role), hermes.One(hermes.Delta("content", "hi")), hermes.One(hermes.Delta("content", "\n`💻 ls`\n")), hermes.One(hermes.Delta("content", "<think>a</think>")), hermes.One(": keepalive"),
		hermes.Running("terminal", "call_1"), hermes.Completed("terminal", "call_1"), hermes.One(hermes.Finish("stop", 5)), hermes.One("data: [DONE]"),
	}
	own := map[string][][]string{
		racePaths[0]: chat,
		racePaths[1]: {
			{"event: response.created", `data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response","status":"in_progress"}}`},
			{"event: response.output_text.delta", `data: {"type":"response.output_text.delta","sequence_number":1,"delta":"hi"}`},
			{"event: response.completed", `data: {"type":"response.completed","sequence_number":2,"response":{"id":"resp_1","object":"response","status":"completed"}}`},
		},
		racePaths[2]: {
			hermes.One(`data: {"event":"tool.started","run_id":"run_1","timestamp":1,"tool":"terminal"}`),
			hermes.One(`data: {"event":"message.delta","run_id":"run_1","timestamp":1,"delta":"hi"}`),
			hermes.One(`data: {"event":"run.completed","run_id":"run_1","timestamp":1}`),
		},
		racePaths[3]: {
			{"event: run.started", `data: {"session_id":"s1","run_id":"run_1","seq":1,"ts":1}`},
			{"event: tool.started", `data: {"session_id":"s1","run_id":"run_1","seq":2,"ts":1,"tool_name":"terminal"}`},
			{"event: done", `data: {"session_id":"s1","run_id":"run_1","seq":3,"ts":1}`},
		},
		racePaths[4]: {{"event: ping", `data: {"a":1}`}, hermes.One(`data: {"b":2}`)},
	}[path]
	var frames [][]string
	for range r.IntN(12) {
		from := [][][]string{own, chat}[r.IntN(2)]
		frames = append(frames, from[r.IntN(len(from))])
	}
	if r.IntN(2) == 0 {
		frames = append([][]string{hermes.One(hermes.Role)}, frames...)
	}
	return frames
}
