// Package kubernetes tests deploy/kubernetes: every way to render it
// is decoded strictly into the API's own Go types, and the rules that matter are
// checked on the result. Nothing of a cluster is needed, and kubectl and helm
// only by some; those tests are skipped where they are not in the PATH, unless
// HERMES_KUBECTL or HERMES_HELM is "required". .ci/kubernetes does the rest
// with a real API server.
package kubernetes

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/yaml"
)

// check applies rules to a rendering.
func check(t *testing.T, o objects, rules map[string]rule) {
	t.Helper()
	if n := len(o.pods()); n != 1 {
		t.Errorf("%d pods have the sidecar", n)
	}
	for _, p := range o.pods() {
		for _, name := range slices.Sorted(maps.Keys(rules)) {
			rules[name](o, p, func(fault string) { t.Errorf("%s: %s", name, fault) })
		}
	}
}

func TestKustomizations(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(overlays)) {
		t.Run(name, func(t *testing.T) {
			o := must(t, kustomized(t, name))
			check(t, o, always)
			if strings.HasPrefix(name, "base") {
				check(t, o, ours)
			}
			if caddyfile(o) != harness.ReadFile(t, filepath.Join(deployed, "components/sidecar/Caddyfile")) {
				t.Errorf("the sidecar is given\n%s", caddyfile(o))
			}
		})
	}
}

func TestChart(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(charts)) {
		t.Run(name, func(t *testing.T) {
			o := must(t, charted(t, "hermes", name))
			check(t, o, always)
			check(t, o, ours)
		})
	}
}

// TestChartIsTheBase: both say the same about the pod and what is around it, but
// for labels that Helm wants, the name of the ConfigMap and where the image is.
func TestChartIsTheBase(t *testing.T) {
	chart, base := must(t, charted(t, "hermes", "default")), must(t, kustomized(t, "base"))
	caddyfiles := [2]any{bare(caddyfile(chart)), bare(caddyfile(base))}
	configs := func(o objects) string {
		var name string
		for _, v := range o.pods()[0].spec.Volumes {
			if v.ConfigMap != nil {
				name, v.ConfigMap.Name = v.ConfigMap.Name, "hermes-sidecar"
			}
		}
		return name
	}
	if c, b := configs(chart), configs(base); c != "hermes-sidecar" || !strings.HasPrefix(b, "hermes-sidecar-") {
		t.Errorf("ConfigMaps %s and %s", c, b)
	}
	const registry = "ghcr.io/hermes-sidecar/"
	image := &chart.pods()[0].sidecar().Image
	if !strings.HasPrefix(*image, registry) {
		t.Errorf("the chart has the image %s, which is not that of the releases", *image)
	}
	*image = strings.TrimPrefix(*image, registry)
	for _, o := range []objects{chart, base} {
		for _, list := range [][]core.Container{o.pods()[0].spec.InitContainers, o.pods()[0].spec.Containers} {
			for i := range list {
				list[i].ImagePullPolicy = "" // IfNotPresent, the default for a tag
			}
		}
		slices.SortFunc(o.pods()[0].spec.Volumes, func(a, b core.Volume) int { return strings.Compare(a.Name, b.Name) })
		of[*core.Service](o)[0].Spec.Type = "" // ClusterIP, the default
		for _, n := range of[*networking.NetworkPolicy](o) {
			n.Spec.PodSelector.MatchLabels = nil // whose pods, selectors says
		}
	}
	for name, pair := range map[string][2]any{
		"pod":           {of[*apps.Deployment](chart)[0].Spec.Template.Spec, of[*apps.Deployment](base)[0].Spec.Template.Spec},
		"strategy":      {of[*apps.Deployment](chart)[0].Spec.Strategy, of[*apps.Deployment](base)[0].Spec.Strategy},
		"selector":      {of[*apps.Deployment](chart)[0].Spec.Selector, of[*apps.Deployment](base)[0].Spec.Selector},
		"Service":       {of[*core.Service](chart)[0].Spec, of[*core.Service](base)[0].Spec},
		"claim":         {of[*core.PersistentVolumeClaim](chart)[0].Spec, of[*core.PersistentVolumeClaim](base)[0].Spec},
		"NetworkPolicy": {of[*networking.NetworkPolicy](chart)[0].Spec, of[*networking.NetworkPolicy](base)[0].Spec},
		"Caddyfile":     caddyfiles,
	} {
		if c, b := text(t, pair[0]), text(t, pair[1]); c != b {
			t.Errorf("%s: the chart says\n%s\nthe base says\n%s", name, c, b)
		}
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// bare is a Caddyfile without comments, empty lines and the order of its options.
func bare(caddyfile string) []string {
	var lines []string
	for l := range strings.Lines(caddyfile) {
		if l = strings.TrimSpace(l); l != "" && !strings.HasPrefix(l, "#") {
			lines = append(lines, l)
		}
	}
	slices.Sort(lines)
	return lines
}

// TestExistingDeployments keep what they have.
func TestExistingDeployments(t *testing.T) {
	o := must(t, kustomized(t, "example"))
	if len(of[*apps.Deployment](o)) != 2 || len(of[*core.Service](o)) != 2 {
		t.Fatalf("%d Deployments, %d Services", len(of[*apps.Deployment](o)), len(of[*core.Service](o)))
	}
	for _, d := range of[*apps.Deployment](o) {
		if got := len(d.Spec.Template.Spec.InitContainers); d.Name == "hermes-page" && got != 0 || d.Name == "hermes" && got != 2 {
			t.Errorf("%s has %d init containers", d.Name, got)
		}
	}
	for _, s := range of[*core.Service](o) {
		port := s.Spec.Ports[0]
		switch {
		case port.Port != 80:
			t.Errorf("clients of %s must use port %d now", s.Name, port.Port)
		case s.Name == "hermes" && (port.TargetPort.IntVal != 8643 || port.Name != "api"), s.Name == "hermes-page" && port.TargetPort.StrVal != "http":
			t.Errorf("%s leads to %s", s.Name, port.TargetPort.String())
		}
	}
	p := o.pods()[0]
	if c := p.spec.Containers[0]; c.Name != "agent" || c.Ports[0].ContainerPort != 8642 || c.ReadinessProbe.HTTPGet.Port.StrVal != "api" {
		t.Errorf("the agent's container is %+v", c)
	}
	if p.labels["app"] != "hermes" || p.spec.TerminationGracePeriodSeconds != nil {
		t.Errorf("labels %v, killed after %v", p.labels, p.killed())
	}
}

// TestPrefixedNamesFit: what refers to a name also gets its prefix.
func TestPrefixedNamesFit(t *testing.T) {
	o := must(t, kustomized(t, "base-all"))
	if d := of[*apps.Deployment](o)[0]; d.Name != "team-a-hermes" || d.Namespace != "agents" || of[*autoscaling.HorizontalPodAutoscaler](o)[0].Spec.ScaleTargetRef.Name != d.Name {
		t.Errorf("Deployment %s in %s, scaled is %s", d.Name, d.Namespace, of[*autoscaling.HorizontalPodAutoscaler](o)[0].Spec.ScaleTargetRef.Name)
	}
	images := []string{o.pods()[0].sidecar().Image, o.pods()[0].hermes().Image}
	if images[0] != "registry.example.com/hermes-sidecar:1.2.3" || !strings.HasPrefix(images[1], "nousresearch/hermes-agent@sha256:") {
		t.Errorf("images %q", images)
	}
}

// TestKubectlRendersTheSame as the library that the other tests use.
func TestKubectlRendersTheSame(t *testing.T) {
	kubectl := harness.Program(t, "HERMES_KUBECTL", "kubectl")
	for _, name := range slices.Sorted(maps.Keys(overlays)) {
		out, err := run(exec.Command(kubectl, "kustomize", overlay(t, overlays[name])))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if want := kustomized(t, name).yaml; !bytes.Equal(out, want) {
			t.Errorf("%s: kubectl renders\n%s\nwant\n%s", name, out, want)
		}
	}
}

// TestHelmLint, strictly, with all values.
func TestHelmLint(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(charts)) {
		if _, err := helm(t, charts[name], "lint", "--strict", filepath.Join(deployed, "chart"), "--kube-version", "1.36.3"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

var update = flag.Bool("update", false, "write what is generated")

// TestReadmeHasTheValues: the table in the README of the chart is what values.yaml says,
// each value with its default and the comment above it.
func TestReadmeHasTheValues(t *testing.T) {
	var doc kyaml.Node
	if err := kyaml.Unmarshal([]byte(harness.ReadFile(t, filepath.Join(deployed, "chart/values.yaml"))), &doc); err != nil {
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
func valueRows(t *testing.T, mapping *kyaml.Node, path string) (rows []string) {
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
		if value.Kind == kyaml.MappingNode && len(value.Content) > 0 && key.Value != "resources" {
			rows = append(append(rows, fmt.Sprintf(row, "")), valueRows(t, value, at)...)
			continue
		}
		rows = append(rows, fmt.Sprintf(row, defaultOf(t, value)))
	}
	return rows
}

// defaultOf returns a default as it stands in a line of Markdown, "" for an empty text.
func defaultOf(t *testing.T, value *kyaml.Node) string {
	t.Helper()
	if value.Kind == kyaml.ScalarNode && value.Value == "" {
		return ""
	}
	var flow func(n *kyaml.Node)
	flow = func(n *kyaml.Node) {
		n.HeadComment, n.Style = "", n.Style|kyaml.FlowStyle
		for _, c := range n.Content {
			flow(c)
		}
	}
	flow(value)
	out, err := kyaml.Marshal(value)
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
