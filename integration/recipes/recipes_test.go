// Package recipes runs the configurations in docs/recipes, in the README and in other pages as
// they stand there, with other ports and addresses. Those with nginx, HAProxy or Traefik are
// skipped without it, unless HERMES_PROXIES or HERMES_TRAEFIK is "required".
package recipes

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/client"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/sidecar"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/strict"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
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
			} else if !strings.Contains(tests.String(), `recipeOf(t, "`+m[2]+`")`) && !slices.ContainsFunc(snippets, func(s snippet) bool { return s.name == m[2] }) {
				t.Errorf("no test runs %s", m[2])
			}
		}
	}
	if n < 4 {
		t.Errorf("found %d recipes only", n)
	}
}

// site is a site on port 8643 in a page, as an indented block or in a fence.
var site = regexp.MustCompile(`(?m)^( {4})?:8643 \{\n(?:(?: {4}|\t).*\n)*(?: {4})?\}\n`)

// TestCaddyfilesOfThePages run as they stand, but for their port and Hermes' address,
// and are open to this machine only. Caddy finds nothing to format in them.
func TestCaddyfilesOfThePages(t *testing.T) {
	pages, err := filepath.Glob(harness.Path("docs/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	var caddyfiles []string
	of := make(map[string]int)
	for _, page := range append(pages, harness.Path("README.md")) {
		for _, m := range site.FindAllStringSubmatch(harness.ReadFile(t, page), -1) {
			text := m[0]
			if m[1] != "" {
				text = strings.ReplaceAll(text[4:], "\n    ", "\n")
			}
			caddyfiles = append(caddyfiles, text)
			of[filepath.Base(page)]++
		}
	}
	for _, page := range []string{"README.md", "observability.md", "open-webui.md", "operating.md", "options.md", "resume.md"} {
		if of[page] == 0 {
			t.Errorf("%s has no site", page)
		}
	}
	for _, text := range caddyfiles {
		if !strings.Contains(text, ":8643 {\n\tbind 127.0.0.1\n") {
			t.Errorf("it is open to everybody:\n%s", text)
		}
		up := upstream.New(t, upstream.Replay(hermes.Recorded(t, "g0-v0.8.0/one_tool"), upstream.ByFrame))
		home, listen := t.TempDir(), harness.FreePort(t)
		// The answer of the recording is checked for its events, which get no ids in chats then.
		text = strings.NewReplacer("always chat", "always sessions", "127.0.0.1:8642", up.Addr, "reverse_proxy https://hermes.example.com", "reverse_proxy "+up.Addr,
			"{$HERMES_REPLICAS_SECRET}", strings.Repeat("s", 32)).Replace(text)
		if strings.Contains(text, "approvals link") && !strings.Contains(text, "hermes_approvals") { // the page also has the other site
			text = strings.Replace(text, "\thermes {", "\thermes_approvals\n\thermes {", 1)
		}
		file := filepath.Join(home, "Caddyfile")
		harness.WriteFile(t, file, []byte(text))
		if out, bad, err := sidecar.Command(t, home, "validate", "--config", file); err != nil || strings.Contains(string(bad), "not formatted") {
			t.Errorf("%v\n%s%s\n%s", err, out, bad, text)
		}
		harness.WriteFile(t, file, []byte("{\n\tadmin off\n}\n\n"+strings.Replace(text, ":8643 {", "http://"+listen+" {", 1)))
		sidecar.RunArgs(t, sidecar.Environment(home), "run", "--config", file)
		client.New(t, "http://"+listen).Chat().CheckRepaired(t)
	}
}

// TestReloadLogsWhatThePageQuotes where a stream is open for longer than the
// grace period; and the stream goes on.
func TestReloadLogsWhatThePageQuotes(t *testing.T) {
	page := harness.ReadFile(t, harness.Path("docs/troubleshooting.md"))
	const quoted = `"msg":"server shutdown","error":"server graceful shutdown 20s timeout"`
	if !strings.Contains(strings.ReplaceAll(page, "\n", " "), quoted) {
		t.Fatalf("the page does not quote %s", quoted)
	}
	up, rest := upstream.Held(t)
	conf := sidecar.Config{Admin: harness.FreePort(t), Grace: "1s", Sites: []sidecar.Site{{Listen: harness.FreePort(t), Upstream: up.Addr}}}
	s := sidecar.Run(t, t.TempDir(), conf)
	live := client.New(t, "http://"+conf.Sites[0].Listen).Chat()
	got := live.Frame().Raw
	next := conf
	next.Sites = []sidecar.Site{{Listen: conf.Sites[0].Listen, Upstream: up.Addr, Options: sidecar.Options{"status_line": true}}}
	s.Load(next)
	if !s.Await(strings.Replace(quoted, "20s", "1s", 1)) {
		t.Errorf("it says\n%s", s.Log)
	}
	close(rest)
	strict.Decode(t, got+live.All()).CheckGood(t)
}
