package configuration

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/schema"
)

// adapted reads the golden files of adapting: what comes of each Caddyfile, JSON or an
// error.
func adapted(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, dir := range []string{"adapt", "proxycommand"} {
		files, err := filepath.Glob(harness.Path("caddymodule/testdata/" + dir + "/*.*"))
		if err != nil || len(files) < 10 {
			t.Fatalf("%d golden files, %v", len(files), err)
		}
		for _, file := range files {
			_, want, ok := strings.Cut(harness.ReadFile(t, file), "\n----------\n")
			if !ok {
				t.Fatalf("%s has no line of dashes", file)
			}
			all[dir+"/"+filepath.Base(file)] = strings.TrimSpace(want)
		}
	}
	return all
}

// handlersIn returns the JSON objects in a value that are a handler of the name.
func handlersIn(value any, name string) (found []any) {
	switch v := value.(type) {
	case map[string]any:
		if v["handler"] == name {
			found = append(found, v)
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			found = append(found, handlersIn(v[key], name)...)
		}
	case []any:
		for _, of := range v {
			found = append(found, handlersIn(of, name)...)
		}
	}
	return found
}

// TestSchemaAllowsWhatAdapts: each configuration that a Caddyfile adapts to, and each of
// our handlers in it. With a member of another name in one of them it is refused.
func TestSchemaAllowsWhatAdapts(t *testing.T) {
	s := schema.Load(t, "config.json")
	whole, seen := s.At(t, ""), map[string]int{}
	for file, text := range adapted(t) {
		if !strings.HasPrefix(text, "{") {
			continue
		}
		config, err := schema.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := whole.Validate(config); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		for _, name := range []string{"hermes", "hermes_resume"} {
			for _, h := range handlersIn(config, name) {
				seen[name]++
				if err := s.At(t, "/$defs/"+name).Validate(h); err != nil {
					t.Errorf("%s: %v", file, err)
				}
				h.(map[string]any)["progres"] = "off"
				if whole.Validate(config) == nil {
					t.Errorf("%s: a member progres of %s passes", file, name)
				}
				delete(h.(map[string]any), "progres")
			}
		}
	}
	if seen["hermes"] < 30 || seen["hermes_resume"] < 2 {
		t.Errorf("handlers %v", seen)
	}
}

// refused is what errors of values look like.
var refused = regexp.MustCompile(`^parsing caddyfile tokens for '(hermes|hermes_proxy|hermes_resume)': (?:invalid (tool): (emoji|tool name) ("(?:[^"\\]|\\.)*"|is empty)|` +
	`(?:invalid|unrecognized) (?:subdirective )?(\w+ )?("(?:[^"\\]|\\.)*"):)`)

// TestSchemaRefusesWhatDoesNotAdapt: each value and each name that a Caddyfile must not
// have, as a member of JSON.
func TestSchemaRefusesWhatDoesNotAdapt(t *testing.T) {
	whole := schema.Load(t, "config.json").At(t, "")
	n := 0
	for file, text := range adapted(t) {
		m := refused.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		n++
		var value string
		if m[4]+m[6] != "is empty" {
			if err := json.Unmarshal([]byte(m[4]+m[6]), &value); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
		}
		handler, _ := strings.CutSuffix(m[1], "_proxy")
		member := fmt.Sprintf("%q: %q", strings.TrimSpace(m[5]), value)
		switch {
		case m[3] == "emoji":
			member = fmt.Sprintf(`"tool": {%q: "x"}`, value)
		case m[3] == "tool name":
			member = fmt.Sprintf(`"tool": {"🛰️": %q}`, value)
		case m[5] == "":
			member = fmt.Sprintf(`%q: "x"`, value)
		case regexp.MustCompile(`^-?\d+$`).MatchString(value) && strings.HasPrefix(m[5], "max_"):
			member = fmt.Sprintf("%q: %s", strings.TrimSpace(m[5]), value)
		}
		object := fmt.Sprintf(`{"handler": %q, %s}`, handler, member)
		v, err := schema.Parse(object)
		if err != nil {
			t.Fatalf("%s: %v in %s", file, err, object)
		}
		if whole.Validate(v) == nil {
			t.Errorf("%s: %s passes, the Caddyfile says %s", file, object, text)
		}
	}
	if n < 60 {
		t.Errorf("%d errors are about a value", n)
	}
}
