package kubernetes

import (
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

var update = flag.Bool("update", false, "write what is generated")

// TestReadmeHasTheValues: the table in the README of the chart is what values.yaml says,
// each value with its default and the comment above it.
func TestReadmeHasTheValues(t *testing.T) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(harness.ReadFile(t, filepath.Join(deployed, "chart/values.yaml"))), &doc); err != nil {
		t.Fatal(err)
	}
	rows := valueRows(t, doc.Content[0], "")
	if len(rows) < 80 {
		t.Errorf("%d values", len(rows))
	}
	readme := filepath.Join(deployed, "chart/README.md")
	text := harness.ReadFile(t, readme)
	above, _, found := strings.Cut(text, "|---|---|---|\n")
	if !found {
		t.Fatal("the README has no table")
	}
	want := above + "|---|---|---|\n" + strings.Join(rows, "")
	switch {
	case text == want:
	case *update:
		harness.WriteFile(t, readme, []byte(want))
	default:
		t.Errorf("the table is not what values.yaml says (-update writes it), which is\n%s", strings.Join(rows, ""))
	}
}

// valueRows returns the rows of the values in a mapping, which is at a path.
func valueRows(t *testing.T, mapping *yaml.Node, path string) (rows []string) {
	t.Helper()
	for i := 0; i < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		at := strings.TrimPrefix(path+"."+key.Value, ".")
		var about []string
		for line := range strings.Lines(key.HeadComment) {
			about = append(about, strings.TrimSpace(strings.TrimPrefix(line, "#")))
		}
		if len(about) == 0 {
			t.Errorf("values.yaml says nothing about %s", at)
		}
		row := "| `" + at + "` | %s | " + strings.Join(about, " ") + " |\n"
		// Below resources is what Kubernetes says, not the chart.
		if value.Kind == yaml.MappingNode && len(value.Content) > 0 && key.Value != "resources" {
			rows = append(append(rows, fmt.Sprintf(row, "")), valueRows(t, value, at)...)
			continue
		}
		rows = append(rows, fmt.Sprintf(row, defaultOf(t, value)))
	}
	return rows
}

// defaultOf returns a default as it stands in a line of Markdown, "" for an empty text.
func defaultOf(t *testing.T, value *yaml.Node) string {
	t.Helper()
	if value.Kind == yaml.ScalarNode && value.Value == "" {
		return ""
	}
	var flow func(n *yaml.Node)
	flow = func(n *yaml.Node) {
		n.HeadComment, n.Style = "", n.Style|yaml.FlowStyle
		for _, c := range n.Content {
			flow(c)
		}
	}
	flow(value)
	out, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return "`" + strings.Join(strings.Fields(string(out)), " ") + "`"
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
	if image := o.pods()[0].sidecar().Image; !strings.HasPrefix(image, "registry.example.com/") || len(of[*autoscaling.HorizontalPodAutoscaler](o)) != 1 || len(of[*monitoring.PodMonitor](o)) != 1 || of[*apps.Deployment](o)[0].Namespace != "agents" {
		t.Errorf("image %s, %d autoscalers, %d PodMonitors", image, len(of[*autoscaling.HorizontalPodAutoscaler](o)), len(of[*monitoring.PodMonitor](o)))
	}
}
