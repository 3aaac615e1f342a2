package recipes

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
)

// recipePages is where the recipes are, and the pages beside them that have some.
var recipePages = harness.Path("docs/recipes/*.md")

var fence = regexp.MustCompile("(?ms)^```(\\S+)(?: (\\S+))?\n(.*?)^```$")

// recipeOf returns the recipe of a name: a fenced block of a page whose info string is a
// language and the name, such as "```caddyfile keys".
func recipeOf(t testing.TB, name string) sidecar.Recipe {
	t.Helper()
	var found []string
	for _, page := range pages(t) {
		for _, m := range fence.FindAllStringSubmatch(page, -1) {
			if m[2] == name {
				found = append(found, m[3])
			}
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d recipes are named %q", len(found), name)
	}
	return sidecar.NewRecipe(t, found[0])
}

func pages(t testing.TB) []string {
	t.Helper()
	names, err := filepath.Glob(recipePages)
	if err != nil || len(names) == 0 {
		t.Fatalf("no recipes: %v", err)
	}
	var all []string
	for _, n := range names {
		all = append(all, harness.ReadFile(t, n))
	}
	return all
}

// Every configuration on the pages has a name, and a test that runs it.
func TestEveryRecipeIsRun(t *testing.T) {
	sources, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var tests strings.Builder
	for _, s := range sources {
		tests.WriteString(harness.ReadFile(t, s))
	}
	n := 0
	for _, page := range pages(t) {
		for _, m := range fence.FindAllStringSubmatch(page, -1) {
			n++
			if m[2] == "" {
				t.Errorf("a configuration without a name:\n%s", m[3])
			} else if !strings.Contains(tests.String(), `recipeOf(t, "`+m[2]+`")`) {
				t.Errorf("no test runs %s", m[2])
			}
		}
	}
	if n < 4 {
		t.Errorf("found %d recipes only", n)
	}
}
