package replay

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// modern serves the recordings of a release that needs no repair, under the
// names of the scenarios.
func modern(t *testing.T) http.Handler {
	streams := map[string][]byte{}
	for _, name := range []string{"one_tool", "parallel_tools", "plain"} {
		streams[name] = recording(t, "g3-v0.20.3", name)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		for name, stream := range streams {
			if strings.Contains(string(body), `"`+name+`"`) {
				w.Header().Set("Content-Type", "text/event-stream")
				w.Write(stream)
				return
			}
		}
		http.NotFound(w, r)
	})
}

func newDemo(t *testing.T, sidecar http.Handler, names ...string) (*Demo, *bytes.Buffer) {
	t.Helper()
	chosen, err := Select(names)
	if err != nil {
		t.Fatal(err)
	}
	out := new(bytes.Buffer)
	return &Demo{
		Backend: serve(t, &Backend{Scenarios: Scenarios()}), Sidecar: serve(t, sidecar),
		Scenarios: chosen, Out: out,
	}, out
}

func TestDemoShowsBothSidesAsTheyCame(t *testing.T) {
	d, out := newDemo(t, modern(t), "one_tool", "parallel_tools")
	if err := d.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"1/2 one_tool: text with one tool\n", "2/2 parallel_tools: three tools in parallel\n",
		"`💻 ls -la` ", "│ [💻 terminal  ls -la]\n", "│    running → completed (0.0 s)\n",
		"All 2 as they should be",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Error("escape sequences in a file")
	}
}

func TestDemoFailsWhenNothingIsRepaired(t *testing.T) {
	d, out := newDemo(t, &Backend{Scenarios: Scenarios()}, "one_tool", "plain", "crash_in_tool", "kill")
	err := d.Run(context.Background())
	if !errors.Is(err, ErrNotRepaired) || err.Error() != "3 of 4 scenarios are not as it should be: one_tool, crash_in_tool, kill" {
		t.Errorf("error %v", err)
	}
	if !strings.Contains(out.String(), "WRONG, with the sidecar: the stream did not end cleanly") {
		t.Errorf("the broken connection is not named in\n%s", out)
	}
}

func TestDemoFailsWithoutASidecar(t *testing.T) {
	d, out := newDemo(t, http.NotFoundHandler(), "plain")
	if err := d.Run(context.Background()); !errors.Is(err, ErrNotRepaired) {
		t.Errorf("error %v", err)
	}
	if !strings.Contains(out.String(), "http status 404") {
		t.Errorf("no status in\n%s", out)
	}
}

func TestDemoPrintsRawFrames(t *testing.T) {
	d, out := newDemo(t, modern(t), "one_tool")
	d.Raw = true
	if err := d.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, release := range []string{"g0-v0.8.0", "g3-v0.20.3"} {
		if !strings.Contains(out.String(), string(bytes.TrimSpace(recording(t, release, "one_tool")))) {
			t.Errorf("the stream of %s is not in\n%s", release, out)
		}
	}
}

func TestDemoDrawsOnATerminal(t *testing.T) {
	d, out := newDemo(t, modern(t), "plain")
	d.Screen = Screen{Width: 100, Height: 40, ANSI: true}
	if err := d.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	// A picture for each of the recording's frames on both sides and for both
	// ends, and the last one.
	frames := len(byName(t, "plain").Steps) * 2
	if n := strings.Count(out.String(), "\x1b[J"); n != frames+3 {
		t.Errorf("%d pictures, want %d", n, frames+3)
	}
}

func TestDemoStopsWithItsContext(t *testing.T) {
	d, out := newDemo(t, modern(t), "plain")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := d.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want canceled", err)
	}
	if out.Len() > 0 {
		t.Errorf("printed %q", out)
	}
}

type fullDisk struct{}

var errFull = errors.New("no space left")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

func TestDemoReportsThatItCannotPrint(t *testing.T) {
	for _, ansi := range []bool{false, true} {
		d, _ := newDemo(t, modern(t), "plain")
		d.Out, d.Screen.ANSI = fullDisk{}, ansi
		if err := d.Run(context.Background()); !errors.Is(err, errFull) {
			t.Errorf("ansi %v: error %v, want %v", ansi, err, errFull)
		}
	}
}
