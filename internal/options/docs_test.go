package options

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/options.md and the chart's schema")

// TestPageHasTheTable: docs/options.md has every option in the order of the table, with all
// that the table says of it.
func TestPageHasTheTable(t *testing.T) {
	var b strings.Builder
	for _, o := range table {
		fmt.Fprintf(&b, "\n### `%s`\n\n%s. Example: `%s`\n\n%s %s\n", o.Name, values(o), o.Example, o.Explanation, o.When)
	}
	generated(t, "../../docs/options.md", "<!-- generated: options -->\n", "<!-- end -->", b.String())
}

// TestExamplesChangeTheDefault, as an example has to, and are complete.
func TestExamplesChangeTheDefault(t *testing.T) {
	standard, err := make(Values).Compile()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range table {
		name, value, _ := strings.Cut(o.Example, " ")
		args := []string{value}
		if o.kind == approvals || o.kind == identity {
			args = strings.Fields(value)
		}
		if o.kind == tools {
			args = strings.Fields(strings.ReplaceAll(value, `"`, ""))
		}
		v := make(Values)
		if err := v.Set(name, args); err != nil || name != o.Name {
			t.Errorf("%s: the example %q: %v", o.Name, o.Example, err)
		}
		changed, err := v.Compile()
		if same := reflect.DeepEqual(changed, standard); err != nil || same == (o.apply != nil || o.kind == tools) {
			t.Errorf("%s: the example %q changes nothing, or more than the table: %v", o.Name, o.Example, err)
		}
		if o.Default != "" && value == o.Default {
			t.Errorf("%s: the example is the default", o.Name)
		}
		for _, text := range []string{o.Explanation, o.When} {
			if !strings.HasSuffix(text, ".") {
				t.Errorf("%s: %q is no sentence", o.Name, text)
			}
		}
	}
}

// values returns what an option may be, the default in bold.
func values(o *Option) string {
	standard := "**`" + o.Default + "`**"
	switch o.kind {
	case size:
		return "A size from `1KiB` to `1GiB`. Default: " + standard
	case timeout:
		return "A duration, or `off`. Default: " + standard
	case duration:
		return "A duration. Default: " + standard
	case directory:
		return "A directory. Default: **none**"
	case tools:
		return "An emoji and a name. Default: **none**"
	case identity:
		return "`" + identityUsage + "`. Default: **none**"
	case approvals:
		return "`" + strings.Replace(strings.ReplaceAll(approvalsUsage, ", ", "`, `"), "`or ", "`", 1) + "`. Default: **none**"
	}
	all := "`" + strings.ReplaceAll(o.Usage(), "|", "`, `") + "`"
	return "One of " + all + ". Default: " + standard
}

// generated compares what is between head and tail in a file with want, and writes that with
// -update.
func generated(t *testing.T, file, head, tail, want string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	part := regexp.MustCompile(`(?s)(` + regexp.QuoteMeta(head) + `)(.*?)(` + regexp.QuoteMeta(tail) + `)`)
	found := part.FindSubmatchIndex(b)
	if found == nil {
		t.Fatalf("%s has no part that begins with\n%s", file, head)
	}
	old := string(b[found[4]:found[5]])
	switch {
	case old == want:
	case *update:
		if err := os.WriteFile(file, []byte(string(b[:found[4]])+want+string(b[found[5]:])), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s is not what the table says (-update writes it): it has\n%s\nwant\n%s", file, old, want)
	}
}
