package demo

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/caddyserver/caddy/v2/modules/standard"

	"github.com/hermes-sidecar/hermes-sidecar/tools/demo/internal/replay"
)

func TestDemoShowsEveryScenarioRepaired(t *testing.T) {
	var out bytes.Buffer
	c := command{scenarios: replay.Names(replay.Scenarios()), out: &out}
	if err := c.run(t.Context()); err != nil {
		t.Fatalf("%v in\n%s", err, out.String())
	}
	for _, want := range []string{
		"`💻 ls -la` ", "│ [💻 terminal  ls -la]", "│    running → completed", "│    running → interrupted",
		"│ Error: ", "error agent_crashed", "error upstream_aborted",
		"Network error: ", "[DONE]: no error", "(thought: secret plan)",
		// Of today's Hermes, in Open WebUI.
		"none shown, 3 ran", "│ [📖 read_file  one.txt]", "3 started, 1 completed, 2 interrupted", "error agent_error",
		"(status: Approval needed: rm -rf victim)", "│ Error: HTTP 401: scripted failure 401 [redacted]",
		"All 18 as they should be: clean text, every tool ended, and",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestDemoPrintsRawFrames(t *testing.T) {
	var out bytes.Buffer
	c := command{scenarios: []string{"one_tool"}, raw: true, out: &out}
	if err := c.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	legacy, repaired, _ := strings.Cut(out.String(), "-- with the sidecar")
	if marker := `"\n` + "`" + `\ud83d\udcbb ls -la` + "`" + `\n"`; !strings.Contains(legacy, marker) || strings.Contains(repaired, marker) {
		t.Errorf("the marker is not on the left alone in\n%s", out.String())
	}
	if event := "event: hermes.tool.progress\n"; strings.Contains(legacy, event) || strings.Count(repaired, event) != 2 {
		t.Errorf("the two tool events are not on the right alone in\n%s", out.String())
	}
}

func TestDemoRefusesBadFlags(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for name, test := range map[string]struct {
		command command
		want    string
	}{
		"scenario":        {command{scenarios: []string{"nope"}}, `unknown scenario "nope"`},
		"speed":           {command{speed: -1}, "--speed -1"},
		"backend address": {command{backendAddr: "0.0.0.0:0"}, "not a loopback address"},
		"sidecar address": {command{sidecarAddr: ":0"}, "not a loopback address"},
		"backend port":    {command{backendAddr: taken.Addr().String()}, "in use by another program"},
		"sidecar port":    {command{sidecarAddr: taken.Addr().String()}, "in use by another program"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			test.command.out = &out
			err := test.command.run(t.Context())
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %s", err, test.want)
			}
			if out.Len() > 0 {
				t.Errorf("printed %q", out.String())
			}
		})
	}
}

// watched is an output that says when a text has been printed.
type watched struct {
	mu   sync.Mutex
	text strings.Builder
	want string
	seen chan struct{} // closed when want has been printed
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := strings.Contains(w.text.String(), w.want)
	w.text.Write(p)
	if !before && strings.Contains(w.text.String(), w.want) {
		close(w.seen)
	}
	return len(p), nil
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

func TestDemoKeepsItsPortsOpenUntilInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	out := &watched{want: "The model chooses the scenario", seen: make(chan struct{})}
	ended := make(chan error, 1)
	c := command{
		scenarios: []string{"plain"}, listen: true, out: out,
		backendAddr: "127.0.0.1:0", sidecarAddr: "127.0.0.1:0",
	}
	go func() { ended <- c.run(ctx) }()
	select {
	case <-out.seen:
	case err := <-ended:
		t.Fatalf("ended: %v in\n%s", err, out)
	}
	sidecar := regexp.MustCompile(`with the sidecar +http://(\S+)/v1`).FindStringSubmatch(out.String())
	if sidecar == nil {
		t.Fatalf("no URL in\n%s", out)
	}
	resp, err := http.Post("http://"+sidecar[1]+"/v1/chat/completions", "application/json",
		strings.NewReader(`{"model": "kill", "stream": true, "messages": []}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	stream, err := io.ReadAll(resp.Body)
	if err != nil || !strings.HasSuffix(string(stream), "data: [DONE]\n\n") {
		t.Errorf("stream %q, error %v", stream, err)
	}
	interrupt()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
	if conn, err := net.Dial("tcp", sidecar[1]); err == nil {
		conn.Close()
		t.Error("the port of the sidecar is still open")
	}
}

func TestDemoStopsWhenInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer time.AfterFunc(100*time.Millisecond, interrupt).Stop()
	c := command{speed: 1e-6, out: io.Discard} // more than a year
	if err := c.run(ctx); err == nil || err.Error() != "interrupted" {
		t.Errorf("error %v, want interrupted", err)
	}
}

func TestDemoLeavesNothingBehind(t *testing.T) {
	home := t.TempDir()
	for _, name := range []string{"HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "TMPDIR"} {
		t.Setenv(name, home)
	}
	c := command{scenarios: []string{"one_tool", "crash_in_tool"}, out: io.Discard}
	if err := c.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(home)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range left {
		t.Errorf("left %s behind", entry.Name())
	}
}

func TestDemoKnowsWhatAFileCanShow(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for columns, want := range map[string]int{"": 0, "80": 80, "many": 0} {
		t.Setenv("COLUMNS", columns)
		if got := terminal(f); got != (replay.Screen{Width: want}) {
			t.Errorf("COLUMNS=%q: %+v", columns, got)
		}
	}
}
