package operations

import (
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// documented is docs/observability.md.
func documented(t *testing.T) string {
	t.Helper()
	return harness.ReadFile(t, harness.Path("docs/observability.md"))
}

// TestDocumentedMetricsAreExposed, with the types and the labels that the table
// says, and no others are.
func TestDocumentedMetricsAreExposed(t *testing.T) {
	f := exposed(t)
	row := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (counter|gauge|histogram) \\| ([^|]*)\\|")
	seen := make(map[string]bool)
	for _, m := range row.FindAllStringSubmatch(documented(t), -1) {
		name, kind, labels := m[1], m[2], strings.Fields(strings.ReplaceAll(m[3], "`", ""))
		seen[name] = true
		if f[name] == nil {
			t.Errorf("%s is not exposed", name)
			continue
		}
		if got := strings.ToLower(f[name].GetType().String()); got != kind {
			t.Errorf("%s is a %s, documented as a %s", name, got, kind)
		}
		for _, s := range f[name].GetMetric() {
			var have []string
			for _, l := range s.GetLabel() {
				have = append(have, l.GetName())
			}
			slices.Sort(have)
			slices.Sort(labels)
			if !slices.Equal(have, labels) {
				t.Errorf("%s has the labels %q, documented are %q", name, have, labels)
			}
		}
	}
	for name := range f {
		if !seen[name] {
			t.Errorf("%s is not documented", name)
		}
	}
}

// TestDocumentedJSONIsWhatComes: the examples of a line of the log, of an event
// and of the admin API have the members that real ones have.
func TestDocumentedJSONIsWhatComes(t *testing.T) {
	rest := make(chan struct{})
	scripts := scenes(t)
	scripts["tool"] = func(x *upstream.Exchange) {
		x.Begin("\n`💻 ls -la`\n")
		x.Wait(rest)
		x.End()
	}
	w := watch(t, upstream.New(t, scripts.Play), "debug", "hermes")
	w.Play("crash").All()
	live := w.Play("tool")
	live.Frame()
	live.Frame()
	_, admin := w.get("http://"+w.Admin+"/hermes/streams", http.StatusOK)
	close(rest)
	live.All()
	var list any
	if err := json.Unmarshal([]byte(admin), &list); err != nil {
		t.Fatal(err)
	}
	real := []any{w.named("http.handlers.hermes", "agent_crashed"), w.named("events", "hermes_stream_failed"), list}
	examples := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(documented(t), -1)
	if len(examples) != len(real) {
		t.Fatalf("%d examples, want %d", len(examples), len(real))
	}
	for i, e := range examples {
		var example any
		if err := json.Unmarshal([]byte(e[1]), &example); err != nil {
			t.Errorf("%v in %s", err, e[1])
		}
		if got, want := members(example), members(real[i]); !slices.Equal(got, want) {
			t.Errorf("the example has\n%q\nwhat comes has\n%q", got, want)
		}
	}
}

// members lists the paths of all members.
func members(v any) []string {
	all := make(map[string]bool)
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, m := range v {
				all[path+"."+name] = true
				walk(path+"."+name, m)
			}
		case []any:
			for _, m := range v {
				walk(path+"[]", m)
			}
		}
	}
	walk("", v)
	return slices.Sorted(maps.Keys(all))
}

// TestDocumentedAttributesAreThose of real spans.
func TestDocumentedAttributesAreThose(t *testing.T) {
	c := newCollector(t)
	w := watch(t, upstream.New(t, upstream.Router{
		"good":  upstream.Replay(hermes.Recorded(t, "g3-v0.20.3/one_tool"), upstream.ByFrame),
		"crash": upstream.Replay(hermes.Recorded(t, "g0-v0.8.0/crash_in_tool"), upstream.ByFrame),
	}.Play), "", "tracing\n\thermes", c.environment()...)
	have := make(map[string]bool)
	for _, name := range []string{"good", "crash"} {
		w.Play(name).All()
		s := c.receive("chat hermes-agent")
		for a := range attributes(s.GetAttributes()) {
			have[a] = true
		}
	}
	said := make(map[string]bool)
	for _, row := range regexp.MustCompile("(?m)^\\| ((?:`[a-z_]+\\.[a-z_.]+` ?)+)\\|").FindAllStringSubmatch(documented(t), -1) {
		for _, name := range strings.Fields(row[1]) {
			said[strings.Trim(name, "`")] = true
		}
	}
	if !maps.Equal(have, said) {
		t.Errorf("documented are\n%q\nspans have\n%q", slices.Sorted(maps.Keys(said)), slices.Sorted(maps.Keys(have)))
	}
}
