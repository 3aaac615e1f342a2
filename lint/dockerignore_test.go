package lint

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestImageHasItsSource: .dockerignore lets only what it names into the build of the image.
// That has to be every file that the Dockerfile compiles or copies, on each platform.
func TestImageHasItsSource(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(regexp.MustCompile(`(?m)^(#.*)?\n`).ReplaceAllString(read(t, ".dockerignore"), "")), "\n")
	build := regexp.MustCompile(`(?s)go build .*?-tags (\S+) .*? (\./cmd/\S+);`).FindStringSubmatch(read(t, "Dockerfile"))
	if build == nil {
		t.Fatal("the Dockerfile has no go build with -tags and a package of cmd")
	}
	files := map[string]bool{"go.mod": true, "go.sum": true, "LICENSE": true, "deploy/image/Caddyfile": true}
	for _, arch := range []string{"amd64", "arm64", "arm"} {
		const format = `{{if .Module}}{{if .Module.Main}}{{$d := .Dir}}{{range .GoFiles}}{{$d}}/{{.}}
{{end}}{{range .SFiles}}{{$d}}/{{.}}
{{end}}{{range .EmbedFiles}}{{$d}}/{{.}}
{{end}}{{end}}{{end}}`
		list := exec.Command("go", "list", "-deps", "-tags", build[1], "-f", format, build[2])
		list.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=0")
		list.Stderr = os.Stderr
		out, err := list.Output()
		if err != nil {
			t.Fatal(err)
		}
		root, err := filepath.Abs(".")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(string(out), "\n") {
			if line == "" {
				continue
			}
			name, err := filepath.Rel(root, line)
			if err != nil {
				t.Fatal(err)
			}
			files[filepath.ToSlash(name)] = true
		}
	}
	if len(files) < 50 {
		t.Errorf("the image is built of %d files", len(files))
	}
	for name := range files {
		if dockerIgnores(lines, name) {
			t.Errorf(".dockerignore keeps %s out of the image's build", name)
		}
	}
	for _, name := range []string{".git/config", "build/dist/hermes-sidecar", "integration/go.mod", "lint/house_test.go", "rewrite/stream_test.go", "rewrite/testdata/fuzz/a"} {
		if !dockerIgnores(lines, name) {
			t.Errorf(".dockerignore lets %s into the image's build", name)
		}
	}
}

// dockerIgnores reports whether the lines of a .dockerignore keep a file out: the last that
// matches the file or a directory above it decides.
func dockerIgnores(lines []string, file string) bool {
	out := false
	for _, line := range lines {
		pattern, back := strings.CutPrefix(line, "!")
		pattern, anywhere := strings.CutPrefix(pattern, "**/")
		for above := file; above != "."; above = path.Dir(above) {
			name := above
			if anywhere {
				name = path.Base(above)
			}
			if ok, _ := path.Match(pattern, name); ok {
				out = !back
			}
		}
	}
	return out
}
