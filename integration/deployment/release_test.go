package deployment

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
)

// all are the first groups of a pattern's matches in a file of the repository.
func all(t *testing.T, file, pattern string) (found []string) {
	t.Helper()
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(harness.ReadFile(t, file), -1) {
		found = append(found, m[1])
	}
	if found == nil {
		t.Errorf("%s has no %s", file, pattern)
	}
	return found
}

// The binary of a release is that of the image and of docs/packages.md: the same tags, and
// no symbols.
func TestReleaseIsBuiltAsTheImage(t *testing.T) {
	const tags, flags = "nobadger,nomysql,nopgx", "-s -w -X github.com/hermes-sidecar/hermes-sidecar/internal/build.version= -X github.com/hermes-sidecar/hermes-sidecar/internal/build.commit="
	variable := regexp.MustCompile(`(=v?)(\$\w+|v[\d.]+|\{\{ .*? \}\}|\$\(git.*?\))`)
	for _, file := range []string{"Dockerfile", "docs/packages.md", ".ci/release", ".goreleaser.yaml"} {
		for _, got := range all(t, harness.Path(file), `-tags (no\S+)`) {
			if got != tags {
				t.Errorf("%s has the tags %s, want %s", file, got, tags)
			}
		}
		for _, got := range all(t, harness.Path(file), `"(-s -w .*?)"`) {
			if got = strings.ReplaceAll(variable.ReplaceAllString(got, "$1"), "=v", "="); got != flags {
				t.Errorf("%s has the flags %q of the linker, want %q", file, got, flags)
			}
		}
	}
	if got := all(t, harness.Path(".goreleaser.yaml"), `(?m)^    tags: \[(.*)\]$`); strings.ReplaceAll(got[0], " ", "") != tags {
		t.Errorf("the release has the tags %s", got)
	}
}

// What no other program has, the storage in Redis, is in one of the release's.
func TestReleaseHasRedis(t *testing.T) {
	dirs, mains := all(t, harness.Path(".goreleaser.yaml"), `(?m)^    dir: (.*)$`), all(t, harness.Path(".goreleaser.yaml"), `(?m)^    main: (.*)$`)
	if len(dirs) != 1 || len(mains) != 2 {
		t.Fatalf("%q %q", dirs, mains)
	}
	cmd := exec.Command("go", "list", "-deps", mains[1])
	cmd.Dir = harness.Path(dirs[0])
	out, err := cmd.Output()
	if err != nil || !slices.Contains(strings.Fields(string(out)), "github.com/hermes-sidecar/hermes-sidecar/resume/redis") {
		t.Errorf("%v: %s in %s has no redis", err, mains[1], dirs[0])
	}
}

// Workflows use the Go that the image is built with, and each action at a commit, whose
// version stands beside it.
func TestWorkflowsArePinned(t *testing.T) {
	version := all(t, harness.Path("Dockerfile"), `GO_IMAGE=golang:([\d.]+)-`)[0]
	workflows, err := filepath.Glob(harness.Path(".github/workflows/*.yml"))
	if err != nil || len(workflows) == 0 {
		t.Fatalf("%v: %q", err, workflows)
	}
	for _, file := range workflows {
		text := harness.ReadFile(t, file)
		for _, m := range regexp.MustCompile(`(?:golang:|go-version: )([\d.]+)`).FindAllStringSubmatch(text, -1) {
			if m[1] != version {
				t.Errorf("%s has Go %s, the Dockerfile %s", filepath.Base(file), m[1], version)
			}
		}
		for _, use := range all(t, file, `(?m)^ +(?:- )?uses: (.*)$`) {
			if !regexp.MustCompile(`^[\w-]+/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`).MatchString(use) {
				t.Errorf("%s uses %s, which is not pinned", filepath.Base(file), use)
			}
		}
		if strings.Contains(text, "pull_request_target") || !strings.Contains(text, "\npermissions:\n  contents: read\n") {
			t.Errorf("%s may more than it has to", filepath.Base(file))
		}
		if jobs, limits := strings.Count(text, "runs-on:"), strings.Count(text, "timeout-minutes:"); jobs != limits {
			t.Errorf("%s has %d jobs, and %d of them end by a timeout", filepath.Base(file), jobs, limits)
		}
	}
}

// The changelog has what is not released yet in front, the newest version first, and a link
// for each. Until it has a version, docs/packages.md says that there is no release; from then
// on no page does.
func TestChangelog(t *testing.T) {
	file := harness.Path("CHANGELOG.md")
	sections, links := all(t, file, `(?m)^## \[(.*?)\](?: - \d{4}-\d{2}-\d{2})?$`), all(t, file, `(?m)^\[(.*)\]: https://github\.com/hermes-sidecar/hermes-sidecar/`)
	if sections[0] != "Unreleased" || !slices.Equal(sections, links) {
		t.Errorf("sections %q, links %q", sections, links)
	}
	if headings := regexp.MustCompile(`(?m)^## `).FindAllString(harness.ReadFile(t, file), -1); len(headings) != len(sections) {
		t.Errorf("%d headings, and %d are of a version with its date", len(headings), len(sections))
	}
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/recipes/*.md", "deploy/*/*.md", "deploy/*/*/*.md"} {
		found, err := filepath.Glob(harness.Path(pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		pages = append(pages, found...)
	}
	unreleased := regexp.MustCompile(`(?i)no\srelease\syet|(until|once)\sthere\sis\s(a\srelease|one)`)
	for _, page := range pages {
		if len(sections) > 1 && unreleased.MatchString(harness.ReadFile(t, page)) {
			t.Errorf("there is a release, and %s says that there is none", page)
		}
	}
	if packages := harness.Path("docs/packages.md"); len(sections) == 1 && !unreleased.MatchString(harness.ReadFile(t, packages)) {
		t.Errorf("there is no release, and %s does not say so", packages)
	}
}
