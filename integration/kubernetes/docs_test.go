package kubernetes

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"sigs.k8s.io/yaml"
)

// TestChartValuesAreDocumented, each in the README of the chart.
func TestChartValuesAreDocumented(t *testing.T) {
	var values map[string]any
	if err := yaml.UnmarshalStrict([]byte(harness.ReadFile(t, filepath.Join(deployed, "chart/values.yaml"))), &values); err != nil {
		t.Fatal(err)
	}
	readme := harness.ReadFile(t, filepath.Join(deployed, "chart/README.md"))
	var walk func(at string, v any) int
	walk = func(at string, v any) (n int) {
		// Below these is what Kubernetes says, not the chart.
		if m, ok := v.(map[string]any); ok && len(m) > 0 && !strings.HasSuffix(at, ".resources") {
			for k, v := range m {
				n += walk(strings.TrimPrefix(at+"."+k, "."), v)
			}
			return n
		}
		if !strings.Contains(readme, "`"+at+"`") {
			t.Errorf("%s is not in chart/README.md", at)
		}
		return 1
	}
	if n := walk("", values); n < 35 {
		t.Errorf("%d values", n)
	}
}

// TestChartHasEveryOption of the directive with every value that has a name, but
// those that other values decide or that need a volume.
func TestChartHasEveryOption(t *testing.T) {
	type property struct {
		Enum       []any
		Properties map[string]property
	}
	var schema property
	if err := json.Unmarshal([]byte(harness.ReadFile(t, filepath.Join(deployed, "chart/values.schema.json"))), &schema); err != nil {
		t.Fatal(err)
	}
	options := schema.Properties["sidecar"].Properties["options"].Properties
	page := harness.ReadFile(t, harness.Path("docs/options.md"))
	documented, word := map[string]bool{}, regexp.MustCompile("`([a-z]+)`")
	for _, row := range regexp.MustCompile("(?m)^### `([a-z_]+)`\n\n(.*) Default: ").FindAllStringSubmatch(page, -1) {
		name := row[1]
		if slices.Contains([]string{"drain_timeout", "record", "record_max"}, name) {
			continue
		}
		documented[name] = true
		if len(options[name].Enum) == 0 {
			continue
		}
		var have, want []string
		for _, v := range options[name].Enum {
			if s, ok := v.(string); ok { // the others are what YAML makes of on and off
				have = append(have, s)
			}
		}
		for _, v := range word.FindAllStringSubmatch(row[2], -1) {
			want = append(want, v[1])
		}
		slices.Sort(have)
		slices.Sort(want)
		if !slices.Equal(have, want) {
			t.Errorf("%s may be %q in the chart, and is %q in docs/options.md", name, have, want)
		}
	}
	have, want := slices.Sorted(maps.Keys(options)), slices.Sorted(maps.Keys(documented))
	if !slices.Equal(have, want) {
		t.Errorf("the chart has the options\n%q\ndocs/options.md\n%q", have, want)
	}
}

// TestReadmesKustomizationRenders: what the README says to write.
func TestReadmesKustomizationRenders(t *testing.T) {
	_, text, found := strings.Cut(harness.ReadFile(t, filepath.Join(deployed, "README.md")), "    # kustomization.yaml\n")
	if !found {
		t.Fatal("the README has no kustomization.yaml")
	}
	text, _, _ = strings.Cut(text, "\n\n")
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\n    ", "\n"), "deploy/kubernetes", "..")
	r, err := rendered(overlay(t, strings.TrimPrefix(text, "    ")))
	if err != nil {
		t.Fatal(err)
	}
	o := must(t, rendering{"README", r})
	check(t, o, always)
	check(t, o, ours)
	if image := o.pods()[0].sidecar().Image; !strings.HasPrefix(image, "registry.example.com/") || len(o.scalers) != 1 || len(o.monitors) != 1 || o.deployments[0].Namespace != "agents" {
		t.Errorf("image %s, %d autoscalers, %d PodMonitors", image, len(o.scalers), len(o.monitors))
	}
}
