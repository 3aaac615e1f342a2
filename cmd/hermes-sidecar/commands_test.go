package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/internal/build"
)

// asProgram is a variable that makes a program of the test binary.
const asProgram = "HERMES_SIDECAR_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// run returns what the program writes to standard output.
func run(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	home := t.TempDir()
	cmd.Env = []string{asProgram + "=1", "HOME=" + home, "XDG_DATA_HOME=" + home, "XDG_CONFIG_HOME=" + home, "SOURCE_DATE_EPOCH=1700000000"}
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return string(out)
}

// TestWhatCommandsWrite: the version is that of the sidecar and of the Caddy in it. In the list
// of modules those of Caddy have one; ours are of the main module and have none.
func TestWhatCommandsWrite(t *testing.T) {
	version := "hermes-sidecar " + build.This().String() + ", Caddy v2."
	for args, want := range map[string][]string{
		"version":                 {version},
		"--version":               {version},
		"list-modules --versions": {"\nhttp.handlers.reverse_proxy v2.", "\nhermes\n", "\nhttp.handlers.hermes\n", "\nhttp.handlers.hermes_resume\n", "\nhttp.handlers.hermes_queue\n"},
		"completion bash":         {`commands+=("hermes-proxy")`},
		"completion zsh":          {"#compdef hermes-sidecar"},
		"completion fish":         {"complete -c hermes-sidecar"},
		"completion powershell":   {"Register-ArgumentCompleter -CommandName 'hermes-sidecar'"},
		"__complete hermes-":      {"hermes-repair\t"},
	} {
		out := run(t, strings.Fields(args)...)
		for _, has := range want {
			if !strings.Contains(out, has) {
				t.Errorf("%s: no %q in\n%s", args, has, out)
			}
		}
		if strings.HasPrefix(args, "__complete") && strings.Contains(out, "hermes-manpages") {
			t.Errorf("a hidden command is completed:\n%s", out)
		}
	}
}

// TestManualPages: each command that works here has a page, with the name of this
// program and the whole usage, which Caddy's own pages lack.
func TestManualPages(t *testing.T) {
	dir := t.TempDir()
	run(t, "hermes-manpages", dir)
	for page, want := range map[string]string{
		"hermes-sidecar":               "hermes-sidecar-hermes-proxy(8)",
		"hermes-sidecar-hermes-health": ".TH \"HERMES-SIDECAR\" \"8\" \"Nov 2023\" \"hermes-sidecar " + build.This().Version + "\"",
		"hermes-sidecar-hermes-proxy":  `\-\-stall-timeout\fP`,
		"hermes-sidecar-hermes-repair": "[<file>] [--explain] [--width <columns>]",
		"hermes-sidecar-run":           "[--config <path>",
	} {
		text := read(t, filepath.Join(dir, page+".8"))
		if !strings.Contains(strings.ReplaceAll(text, `\-`, "-"), strings.ReplaceAll(want, `\-`, "-")) {
			t.Errorf("%s has no %q", page, want)
		}
		if strings.Contains(text, "$ caddy ") {
			t.Errorf("%s has examples of caddy", page)
		}
	}
	for name := range foreign {
		if _, err := os.Stat(filepath.Join(dir, "hermes-sidecar-"+name+".8")); err == nil {
			t.Errorf("%s has a page, and does not work", name)
		}
	}
}

// TestNamedFilesAreThere: what a package has beside the binary names no file of the repository
// but by its address.
func TestNamedFilesAreThere(t *testing.T) {
	dir := t.TempDir()
	run(t, "hermes-manpages", dir)
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	for _, m := range regexp.MustCompile(`(?m)^ +- src: (\S+)$`).FindAllStringSubmatch(read(t, "../../.goreleaser.yaml"), -1) {
		if file, ok := strings.CutPrefix(m[1], "build/share/"); !ok {
			files = append(files, "../../"+m[1])
		} else if file == "hermes-sidecar.service" {
			files = append(files, "../../deploy/systemd/"+file)
		}
	}
	named := regexp.MustCompile(`\S*(?:\b(?:docs|deploy|cmd|recipes)/|\.md\b)\S*`)
	for _, file := range files {
		for _, name := range named.FindAllString(strings.ReplaceAll(read(t, file), `\`, ""), -1) {
			if !strings.Contains(name, "https://") {
				t.Errorf("%s names %s", filepath.Base(file), name)
			}
		}
	}
}
