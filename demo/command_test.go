package demo

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	_ "github.com/caddyserver/caddy/v2/modules/standard"
)

func TestDemoShowsEveryScenarioRepaired(t *testing.T) {
	var out bytes.Buffer
	c := command{scenarios: strings.Split(allNames(), ", "), out: &out}
	if err := c.run(t.Context()); err != nil {
		t.Fatalf("%v in\n%s", err, out.String())
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Error("escape sequences in a file")
	}
	for _, want := range []string{
		"1/18 cards: tools in Open WebUI\n", "5/18 one_tool: text with one tool\n", "`💻 ls -la` ", "│ [💻 terminal  ls -la]", "│    running → completed", "│    running → interrupted",
		"│ Error: ", "error agent_crashed", "error upstream_aborted",
		"Network error: ", "[DONE]: no error", "(thought: secret plan)",
		// Of today's Hermes, in Open WebUI.
		"none shown, 3 ran", "│ [📖 read_file  one.txt]", "3 started, 1 completed, 2 interrupted", "error agent_error",
		"(status: Approval needed: rm -rf victim)", "│ Error: HTTP 401: scripted failure 401 [redacted]",
		"All 18 as expected: clean text, every tool ended, and",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// The sidecar is a real one: the marker leaves, and the tool's two events come.
func TestSidecarRepairsRawFrames(t *testing.T) {
	var out bytes.Buffer
	c := command{scenarios: []string{"one_tool"}, raw: true, out: &out}
	if err := c.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	legacy, repaired, _ := strings.Cut(out.String(), "-- with the sidecar")
	if !strings.Contains(legacy, strings.TrimSpace(recording(t, "g0-v0.8.0", "one_tool"))) {
		t.Errorf("the recording is not in\n%s", legacy)
	}
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
		"page address":    {command{page: true, pageAddr: "0.0.0.0:0"}, "not a loopback address: the demo listens on 127.0.0.1 only (--page-addr"},
		"page port":       {command{page: true, pageAddr: taken.Addr().String()}, "in use by another program, perhaps by Hermes itself (--page-addr"},
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

// addresses matches the invitation of the command.
var addresses = regexp.MustCompile(`(?s)with the sidecar +http://([^/]+)/v1\n.*in a browser: http://(\S+)/\n`)

// started runs the command until it has invited to its ports, and returns the addresses of the
// sidecar and the page, and a function that interrupts the command and returns all that it
// printed. Both ports are closed then.
func started(t *testing.T, c command) (sidecar, page string, end func() string) {
	t.Helper()
	ctx, interrupt := context.WithCancel(t.Context())
	t.Cleanup(interrupt)
	printed, out := io.Pipe()
	c.out = out
	go func() { out.CloseWithError(cmp.Or(c.run(ctx), io.EOF)) }()
	var text strings.Builder
	var m []string
	for in := bufio.NewScanner(io.TeeReader(printed, &text)); m == nil; {
		if !in.Scan() {
			t.Fatalf("ended: %v in\n%s", in.Err(), text.String())
		}
		m = addresses.FindStringSubmatch(text.String())
	}
	return m[1], m[2], func() string {
		interrupt()
		if rest, err := io.ReadAll(printed); err != nil || len(rest) > 0 {
			t.Errorf("ended with %v, and printed %q", err, rest)
		}
		for _, addr := range m[1:] {
			if conn, err := net.Dial("tcp", addr); err == nil {
				conn.Close()
				t.Errorf("the port %s is still open", addr)
			}
		}
		return text.String()
	}
}

// stream returns the answer to a request for a scenario.
func stream(t *testing.T, base, model string) string {
	t.Helper()
	body := strings.NewReader(`{"model": "` + model + `", "stream": true, "messages": []}`)
	resp, err := http.Post("http://"+base+"/v1/chat/completions", "application/json", body)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Errorf("%s: %v", base, err)
	}
	return string(b)
}

func TestDemoKeepsItsPortsOpenUntilInterrupted(t *testing.T) {
	sidecar, page, end := started(t, command{
		scenarios: []string{"plain"}, listen: true, backendAddr: freeAddr, sidecarAddr: freeAddr,
	})
	if got := stream(t, sidecar, "kill"); !strings.HasSuffix(got, "data: [DONE]\n\n") {
		t.Errorf("stream %q", got)
	}
	if got := stream(t, page+"/with", "plain"); !strings.HasSuffix(got, "data: [DONE]\n\n") {
		t.Errorf("by the page %q", got)
	}
	if out := end(); !strings.Contains(out, "As expected") {
		t.Errorf("the stream is not printed:\n%s", out)
	}
}

// The page is there at once, shows both sides, and is gone with the command.
func TestDemoServesAPage(t *testing.T) {
	_, page, end := started(t, command{page: true})
	without, with := stream(t, page+"/without", "endless_crash"), stream(t, page+"/with", "endless_crash")
	if !strings.Contains(without, `"stop"`) || strings.Contains(with, `"stop"`) || !strings.Contains(with, "agent_crashed") {
		t.Errorf("without the sidecar:\n%s\nwith it:\n%s", without, with)
	}
	if out := end(); strings.Contains(out, "1/10") {
		t.Errorf("the streams are printed as well:\n%s", out)
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
		if got := terminal(f); got != (screen{columns: want}) {
			t.Errorf("COLUMNS=%q: %+v", columns, got)
		}
	}
}
