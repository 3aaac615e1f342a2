package demo

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// modern serves the recordings of a release that needs no repair, under the
// names of the scenarios.
func modern(t *testing.T) http.Handler {
	streams := map[string]string{}
	for _, name := range []string{"one_tool", "parallel_tools", "plain"} {
		streams[name] = recording(t, "g3-v0.20.3", name)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		for name, stream := range streams {
			if strings.Contains(string(body), `"`+name+`"`) {
				w.Header().Set("Content-Type", "text/event-stream")
				io.WriteString(w, stream)
				return
			}
		}
		http.NotFound(w, r)
	})
}

// show shows scenarios with what stands in for the sidecar, and returns what c printed.
func show(t *testing.T, c command, sidecar http.Handler, names ...string) (string, error) {
	t.Helper()
	chosen, err := choose(names)
	if err != nil {
		t.Fatal(err)
	}
	out := new(bytes.Buffer)
	c.backendAddr, c.sidecarAddr, c.out = serve(t, new(backend)), serve(t, sidecar), out
	err = c.show(t.Context(), chosen)
	return out.String(), err
}

func TestDemoShowsBothSidesAsTheyCame(t *testing.T) {
	out, err := show(t, command{}, modern(t), "one_tool", "parallel_tools")
	for _, want := range []string{
		"1/2 one_tool: text with one tool\n", "2/2 parallel_tools: three tools in parallel\n",
		"`💻 ls -la` ", "│ [💻 terminal  ls -la]\n", "│    running → completed (0.0 s)\n",
		"All 2 as they should be",
	} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%v; no %q in\n%s", err, want, out)
		}
	}
	if strings.Contains(out, "\x1b") {
		t.Error("escape sequences in a file")
	}
}

func TestDemoFailsWhenNothingIsRepaired(t *testing.T) {
	for _, c := range []struct {
		sidecar   http.Handler
		names     string
		err, says string
	}{
		{new(backend), "one_tool plain crash_in_tool kill", "3 of 4 scenarios are not as it should be: one_tool, crash_in_tool, kill",
			"WRONG, with the sidecar: the stream did not end cleanly"},
		{http.NotFoundHandler(), "plain", "1 of 1 scenarios are not as it should be: plain", "http status 404"},
	} {
		out, err := show(t, command{}, c.sidecar, strings.Fields(c.names)...)
		if !errors.Is(err, errNotRepaired) || err.Error() != c.err || !strings.Contains(out, c.says) {
			t.Errorf("%s: %v in\n%s", c.names, err, out)
		}
	}
}

func TestDemoPrintsRawFrames(t *testing.T) {
	out, err := show(t, command{raw: true}, modern(t), "one_tool")
	for _, release := range []string{"g0-v0.8.0", "g3-v0.20.3"} {
		if err != nil || !strings.Contains(out, strings.TrimSpace(recording(t, release, "one_tool"))) {
			t.Errorf("%v; the stream of %s is not in\n%s", err, release, out)
		}
	}
}

func TestDemoDrawsOnATerminal(t *testing.T) {
	out, err := show(t, command{screen: screen{columns: 100, rows: 40, ansi: true}}, modern(t), "plain")
	// A picture for each of the recording's frames on both sides and for both
	// ends, and the last one.
	frames := len(byName(t, "plain").steps) * 2
	if n := strings.Count(out, "\x1b[J"); err != nil || n != frames+3 {
		t.Errorf("%v; %d pictures, want %d", err, n, frames+3)
	}
}

// full is an output that takes nothing.
type full struct{}

var errFull = errors.New("no space left")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestDemoReportsThatItCannotPrint(t *testing.T) {
	for _, ansi := range []bool{false, true} {
		c := command{backendAddr: serve(t, new(backend)), sidecarAddr: serve(t, modern(t)), out: full{}, screen: screen{ansi: ansi}}
		if err := c.show(t.Context(), []scenario{byName(t, "plain")}); !errors.Is(err, errFull) {
			t.Errorf("ansi %v: error %v, want %v", ansi, err, errFull)
		}
	}
}
