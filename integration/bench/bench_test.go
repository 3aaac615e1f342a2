package main

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestFramesAreThoseOfLegacyHermes but for their ids, times and texts.
func TestFramesAreThoseOfLegacyHermes(t *testing.T) {
	recordings, err := filepath.Glob("../../testdata/captures/g0-v0.8.0/*.sse")
	if err != nil || len(recordings) == 0 {
		t.Fatal("no recordings", err)
	}
	var all strings.Builder
	for _, r := range recordings {
		b, err := os.ReadFile(r)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(b)
	}
	shape := func(frame string) (head, tail string) {
		_, rest, _ := strings.Cut(frame, `"object"`)
		head, rest, _ = strings.Cut(rest, `"created": `)
		_, rest, _ = strings.Cut(rest, ",")
		if i := strings.Index(rest, `"content": "`); i >= 0 {
			return head + rest[:i], rest[strings.LastIndex(rest, `"}`):]
		}
		return head, rest
	}
	f := &frames{scenario: scenario{Kind: tools, Chunks: 2}}
	for name, frame := range map[string]string{"role": string(f.role()), "text": string(f.chunk(0, time.Now())), "marker": string(f.chunk(1, time.Now()))} {
		head, tail := shape(frame)
		found := false
		for recorded := range strings.SplitAfterSeq(all.String(), "\n\n") {
			if h, t := shape(recorded); h == head && t == tail {
				found = true
				break
			}
		}
		if !found {
			t.Errorf("no recording has a frame like this one (%s):\n%s", name, frame)
		}
	}
}

func TestFramesAreAsLongAsTheGoalSays(t *testing.T) {
	for seed := range 100 {
		f := &frames{scenario: scenario{Kind: clean, Seed: seed}}
		for i := range 100 {
			if n := len(f.chunk(i, time.Now())); n < 250 || n > 300 {
				t.Fatalf("a frame of %d bytes", n)
			}
		}
	}
}

// verify returns what the check says of a stream, and how it ended.
func verify(s scenario, stream string) (verdict, error) {
	k := check{scenario: s}
	err := eachEvent(strings.NewReader(stream+"\n\n"), func(data string) error { return k.event(data, time.Now()) })
	if err == nil {
		err = k.complete()
	}
	return k.verdict(nil), err
}

func TestStreamsAreCheckedToTheLastByte(t *testing.T) {
	s := scenario{Kind: tools, Chunks: 6, End: endsWell, Seed: 5}
	made := &frames{scenario: s}
	f := []string{string(made.role())}
	for i := range s.Chunks {
		f = append(f, string(made.chunk(i, time.Now())))
	}
	f = append(f, strings.SplitAfter(strings.TrimSuffix(string(made.end()), "\n\n"), "\n\n")...)
	last := len(f) - 1
	tool := func(id, status string) string {
		return `data: {"toolCallId": "` + id + `", "status": "` + status + `"}` + "\n\n"
	}
	for name, c := range map[string]struct {
		changed map[int]string // frames, by their number
		wrong   bool
	}{
		"as it is":                 {nil, false},
		"a chunk is lost":          {map[int]string{3: ""}, true},
		"the last chunk is lost":   {map[int]string{5: "", 6: ""}, true},
		"two chunks change places": {map[int]string{1: f[3], 3: f[1]}, true},
		"a chunk comes twice":      {map[int]string{1: f[1] + f[1]}, true},
		"a word is another":        {map[int]string{3: strings.Replace(f[3], " what", " that", 1)}, true},
		"one marker is stripped":   {map[int]string{2: ""}, true},
		"all are":                  {map[int]string{2: "", 4: "", 6: ""}, false},
		"a tool has no end":        {map[int]string{2: tool("a", "running"), 4: "", 6: ""}, true},
		"a tool has one":           {map[int]string{2: tool("a", "running"), 4: tool("a", "completed"), 6: ""}, false},
		"a tool has two":           {map[int]string{2: tool("a", "running"), 4: tool("a", "completed"), 6: tool("a", "completed")}, true},
		"something after the end":  {map[int]string{last: f[last] + "\n\n" + f[1]}, true},
		"an event that is no JSON": {map[int]string{2: "data: {\n\n"}, true},
		"text after the last text": {map[int]string{7: f[1] + f[7]}, true},
	} {
		stream := slices.Clone(f)
		for i, frame := range c.changed {
			stream[i] = frame
		}
		v, err := verify(s, strings.Join(stream, ""))
		if (err != nil) != c.wrong {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && v != saysStop {
			t.Errorf("%s: the end says %q", name, v)
		}
	}
	if _, err := verify(s, strings.ReplaceAll(strings.Join(f, ""), "\n\n", "\r\n\r\n")); err != nil {
		t.Errorf("with CRLF: %v", err)
	}
}

func TestWhoSaysStop(t *testing.T) {
	for stream, want := range map[string]verdict{
		`data: {"choices": [{"finish_reason": "stop"}]}`:                                                        saysStop,
		`data: {"choices": [{"finish_reason": "error"}]}`:                                                       saysError,
		`data: {"error": {"message": "x"}}`:                                                                     saysError,
		`data: {"error": {"message": "x"}}` + "\n\n" + `data: {"choices": [{"finish_reason": "stop"}]}`:         saysError,
		`data: {"error": null, "choices": [{"delta": {}, "finish_reason": null}]}` + "\n\n" + `data: [DONE]`:    isShort,
		`data: {"choices": [{"delta": {"content": null}, "finish_reason": "length"}]}` + "\n\ndata: [DONE]\n\n": saysStop,
	} {
		if v, err := verify(scenario{}, stream); v != want || err != nil {
			t.Errorf("%s says %q, %v, want %q", stream, v, err, want)
		}
	}
	if v := (&check{}).verdict(io.ErrUnexpectedEOF); v != isCut {
		t.Errorf("a connection that broke off says %q", v)
	}
}

// backendOf serves the scripted backend.
func backendOf(t *testing.T) target {
	t.Helper()
	addr, err := startBackend()
	if err != nil {
		t.Fatal(err)
	}
	return target{Addr: addr}
}

func TestBackendAndClientAgree(t *testing.T) {
	at := backendOf(t)
	for _, k := range []kind{clean, markers, tools, lines} {
		for end, want := range map[ending]verdict{endsWell: saysStop, endsReset: isCut, endsClosed: isCut} {
			check := check{scenario: scenario{Kind: k, Chunks: 25, Every: time.Microsecond, End: end}}
			o := newClient(job{Target: at}).read(&check, nil)
			if o.wrong != nil || o.verdict != want {
				t.Errorf("%s, %s: says %q, %v, want %q", k, end, o.verdict, o.wrong, want)
			}
			if end == endsWell && o.chunks != 27 {
				t.Errorf("%s: %d writes, want one for each of 25 chunks, the role and the end", k, o.chunks)
			}
			if end == endsWell && len(check.latency)+check.kept != 25 {
				t.Errorf("%s: %d times and %d markers", k, len(check.latency), check.kept)
			}
		}
	}
}

func TestFlatStreamsAreChecked(t *testing.T) {
	k := check{scenario: scenario{Kind: markers, Chunks: 5000, End: endsWell, Flat: true, Seed: 3}}
	o := newClient(job{Target: backendOf(t)}).read(&k, nil)
	if o.wrong != nil || o.verdict != saysStop || o.chunks != 5002 || k.kept != 250 {
		t.Errorf("says %q, %v; %d writes and %d markers", o.verdict, o.wrong, o.chunks, k.kept)
	}
}

func TestStreamsThatDoNotEndAreLeft(t *testing.T) {
	j := job{Target: backendOf(t), Streams: 3, Scenario: scenario{Kind: clean, Chunks: 3, Every: time.Microsecond}}
	looked := false
	if err := whileOpen(j, func() error { looked = true; return nil }); err != nil || !looked {
		t.Errorf("looked: %v, %v", looked, err)
	}
	j.Target.Addr = "127.0.0.1:1"
	if err := whileOpen(j, func() error { return errors.New("it looks") }); err == nil || strings.Contains(err.Error(), "it looks") || !strings.Contains(err.Error(), "refused") {
		t.Errorf("without a backend: %v", err)
	}
}

func TestMedians(t *testing.T) {
	for _, c := range []struct {
		of              []float64
		middle, scatter float64
	}{
		{nil, 0, 0}, {[]float64{3}, 3, 0}, {[]float64{4, 1}, 2.5, 1.5}, {[]float64{9, 1, 2, 3, 4}, 3, 1},
	} {
		if m, s := median(c.of); m != c.middle || s != c.scatter {
			t.Errorf("%v: %v ± %v", c.of, m, s)
		}
	}
}

func TestAnExceededBudgetFails(t *testing.T) {
	var g goals
	for _, r := range []result{{value: 1, limit: 1}, {value: 1.01, limit: 1}, {value: 9, limit: noBudget}} {
		g.report(r)
	}
	if g.over != 1 {
		t.Errorf("%d results are over their budget, want 1", g.over)
	}
}

func TestTurnsAtOneTarget(t *testing.T) {
	at := backendOf(t)
	to, added, err := firstBytes(at, at, 4)
	if err != nil || to <= 0 || added <= -to {
		t.Errorf("the first byte came after %v, and after %v more; %v", to, added, err)
	}
}

// TestBenchmarksRun runs each benchmark of the sidecar once, and reads the results of those that have
// a budget.
func TestBenchmarksRun(t *testing.T) {
	t.Chdir("..") // as go run has it
	g := goals{bench: "1x", rounds: 1}
	for part, measure := range map[string]func() error{"histories": g.histories, "queue": g.queue} {
		if err := measure(); err != nil {
			t.Errorf("%s: %v", part, err)
		}
	}
	if g.all != 2*len(historyBudgets)+1 {
		t.Errorf("%d results", g.all)
	}
	out, err := g.benchmark(".", 1, packagesWithBenchmarks(t)...)
	if err != nil || strings.Contains(out, "no test files") || !strings.Contains(out, "\nBenchmarkStreams/crash") {
		t.Error(err, out)
	}
}

// packagesWithBenchmarks returns the directories of the main module, which is above, that have
// benchmarks.
func packagesWithBenchmarks(t *testing.T) (packages []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(".."), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if _, err := os.Stat(filepath.Join("..", name, "go.mod")); err == nil && name != "." {
				return fs.SkipDir // another module
			}
			return nil
		}
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		b, err := os.ReadFile(filepath.Join("..", name))
		if bytes.Contains(b, []byte("\nfunc Benchmark")) {
			packages = append(packages, "./"+path.Dir(name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(packages)
	return slices.Compact(packages)
}
