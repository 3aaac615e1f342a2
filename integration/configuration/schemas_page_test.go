package configuration

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
)

// toolsVariable says that the programs of docs/schemas.md must be there.
const toolsVariable = "HERMES_SCHEMA_TOOLS"

// TestProgramOfThePageChecksStreams: the one of docs/schemas.md finds nothing in what the
// sidecar makes of recordings, and finds a word that is wrong.
func TestProgramOfThePageChecksStreams(t *testing.T) {
	python := harness.Program(t, toolsVariable, "python3")
	if exec.Command(python, "-c", "from jsonschema import Draft202012Validator").Run() != nil {
		harness.Missing(t, toolsVariable, "Python has no jsonschema of 4.0 or newer: pip install jsonschema")
	}
	_, program, ok := strings.Cut(harness.ReadFile(t, harness.Path("docs/schemas.md")), "\n```python\n")
	program, _, end := strings.Cut(program, "\n```\n")
	if !ok || !end {
		t.Fatal("docs/schemas.md has no program")
	}
	file := filepath.Join(t.TempDir(), "check.py")
	harness.WriteFile(t, file, []byte(program))
	check := func(stream string) string {
		cmd := exec.Command(python, file)
		cmd.Dir = harness.Path("")
		cmd.Stdin = strings.NewReader(stream)
		out, err := cmd.CombinedOutput()
		if (err != nil) != (len(out) > 0) {
			t.Fatalf("%v, and it says %q", err, out)
		}
		return string(out)
	}
	for _, name := range []string{"g0-v0.8.0/seq_tools", "g1-v0.9.0/labels", "g2-v0.13.0/crash_in_tool", "g3-v0.20.3/one_tool"} {
		for _, options := range [][]string{nil, {"--progress", "comment"}, {"--cards", "on", "--progress", "unnamed"}} {
			stream, _, _ := sidecar.Command(t, t.TempDir(), append([]string{"hermes-repair", filepath.Join(hermes.Captures, name+".sse")}, options...)...)
			if !strings.Contains(stream, "running") {
				t.Fatalf("%s: no tool runs in %q", name, stream)
			}
			if says := check(stream); says != "" {
				t.Errorf("%s %q: %s", name, options, says)
			}
			wrong := strings.NewReplacer(`"running"`, `"runs"`).Replace(stream)
			if says := check(wrong); !strings.Contains(says, `"runs"`) {
				t.Errorf("%s %q: a wrong word passes: %s", name, options, says)
			}
		}
	}
}

// TestPageChecksConfigurations with check-jsonschema, as docs/schemas.md says, and the error
// is the one that it shows.
func TestPageChecksConfigurations(t *testing.T) {
	program := harness.Program(t, toolsVariable, "check-jsonschema")
	dir := t.TempDir()
	check := func(config string) string {
		harness.WriteFile(t, filepath.Join(dir, "caddy.json"), []byte(config))
		cmd := exec.Command(program, "--schemafile", harness.Path("docs/schema/config.json"), "caddy.json")
		cmd.Dir = dir
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	adapted, _, err := sidecar.Command(t, t.TempDir(), "adapt", "--config", harness.Path("Caddyfile.example"))
	if err != nil {
		t.Fatal(err)
	}
	if says := check(adapted); !strings.Contains(says, "ok") {
		t.Error(says)
	}
	says := check(strings.Replace(adapted, `"handler":"hermes"`, `"handler":"hermes","progress":"loud"`, 1))
	if !strings.Contains(harness.ReadFile(t, harness.Path("docs/schemas.md")), says) || !strings.Contains(says, "loud") {
		t.Errorf("it says %q", says)
	}
	for _, name := range []string{"config", "frame", "error"} {
		if out, err := exec.Command(program, "--check-metaschema", harness.Path("docs/schema/"+name+".json")).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
