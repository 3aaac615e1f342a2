package demo

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"testing"
)

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

func TestDemoFailsWhenNothingIsRepaired(t *testing.T) {
	for _, c := range []struct {
		sidecar   http.Handler
		names     string
		err, says string
	}{
		{new(backend), "one_tool plain crash_in_tool kill", "3 of 4 scenarios are not as expected: one_tool, crash_in_tool, kill",
			"WRONG, with the sidecar: the stream did not end cleanly"},
		{http.NotFoundHandler(), "plain", "1 of 1 scenarios are not as expected: plain", "http status 404"},
	} {
		out, err := show(t, command{}, c.sidecar, strings.Fields(c.names)...)
		if !errors.Is(err, errNotRepaired) || err.Error() != c.err || !strings.Contains(out, c.says) {
			t.Errorf("%s: %v in\n%s", c.names, err, out)
		}
	}
}

func TestDemoDrawsOnATerminal(t *testing.T) {
	// There is nothing to repair in it.
	out, err := show(t, command{screen: screen{columns: 100, rows: 40, ansi: true}}, new(backend), "plain")
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
		c := command{backendAddr: serve(t, new(backend)), sidecarAddr: serve(t, new(backend)), out: full{}, screen: screen{ansi: ansi}}
		if err := c.show(t.Context(), []scenario{byName(t, "plain")}); !errors.Is(err, errFull) {
			t.Errorf("ansi %v: error %v, want %v", ansi, err, errFull)
		}
	}
}
