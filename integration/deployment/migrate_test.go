package deployment

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"go.yaml.in/yaml/v2"
)

// TestMigration: the init container in front of Hermes runs Hermes' script when there is
// a configuration and the version has one, and lets Hermes start whatever comes of it.
func TestMigration(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("the init container runs a shell, of which the PATH has none")
	}
	var w struct {
		Spec struct {
			Template struct {
				Spec struct {
					InitContainers []struct {
						Name          string
						Command, Args []string
					} `yaml:"initContainers"`
				}
			}
		}
	}
	if err := yaml.Unmarshal([]byte(harness.ReadFile(t, filepath.Join(manifests, "base/deployment.yaml"))), &w); err != nil {
		t.Fatal(err)
	}
	migrate := w.Spec.Template.Spec.InitContainers[0]
	if migrate.Name != "migrate" || strings.Join(migrate.Command, " ") != "/bin/sh -c" || len(migrate.Args) != 1 {
		t.Fatalf("it is %+v", migrate)
	}
	const script = "scripts/docker_config_migrate.py"
	for what, c := range map[string]struct {
		files []string
		fails bool
		ran   bool
	}{
		"a new home":                     {files: []string{script}},
		"a home that is there":           {files: []string{script, "config.yaml"}, ran: true},
		"a version without the script":   {files: []string{"config.yaml"}},
		"a configuration that is broken": {files: []string{script, "config.yaml"}, fails: true, ran: true},
	} {
		dir := t.TempDir()
		python := "#!" + shell + "\necho \"$1\" > " + dir + "/ran\n"
		if c.fails {
			python += "exit 3\n"
		}
		for _, sub := range []string{".venv/bin", "scripts"} {
			if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, ".venv/bin/python"), []byte(python), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, f := range c.files {
			harness.WriteFile(t, filepath.Join(dir, f), nil)
		}
		cmd := exec.Command(shell, "-c", strings.ReplaceAll(migrate.Args[0], "/opt/hermes", dir))
		cmd.Env = []string{"HERMES_HOME=" + dir}
		var said bytes.Buffer
		cmd.Stderr = &said
		if err := cmd.Run(); err != nil {
			t.Errorf("%s: Hermes does not start: %v", what, err)
		}
		ran, _ := os.ReadFile(filepath.Join(dir, "ran"))
		if got := strings.TrimSpace(string(ran)); got != "" != c.ran || c.ran && got != filepath.Join(dir, script) {
			t.Errorf("%s: it ran %q", what, got)
		}
		if strings.Contains(said.String(), "migrate: failed") != c.fails {
			t.Errorf("%s: it says %q", what, said.String())
		}
	}
}
