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
		fmt.Fprintf(&b, "\n### `%s`\n\n%s %s\n\n%s", o.Name, o.Explanation, o.When, values(o))
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
		if o.Values != nil && len(o.Values) != len(ways(o)) || o.Values == nil && o.kind == words {
			t.Errorf("%s: %d values are explained, want %q", o.Name, len(o.Values), ways(o))
		}
	}
}

// values returns the list of what an option may be, the default in bold.
func values(o *Option) string {
	standard := "**`" + o.Default + "`**"
	switch o.kind {
	case size:
		return "- " + standard + ", or another size from `1KiB` to `1GiB`\n"
	case timeout:
		if o.Default == "off" {
			return "- " + standard + ", or a duration\n"
		}
		return "- " + standard + ", another duration, or `off`\n"
	case duration:
		return "- " + standard + ", or another duration\n"
	case onOff:
		other := map[string]string{"on": "off", "off": "on"}[o.Default]
		return "- " + standard + ", or `" + other + "`\n"
	case directory, tools:
		return "- **none**; for example `" + o.Example + "`\n"
	}
	var b strings.Builder
	for i, way := range ways(o) {
		way = "`" + way + "`"
		if way == "`"+o.Default+"`" {
			way = "**" + way + "**"
		}
		b.WriteString("- " + way)
		if o.Values != nil {
			b.WriteString(" " + o.Values[i])
		}
		b.WriteString("\n")
	}
	return b.String()
}

// ways returns the values or, of an option that may be repeated, the forms of its lines.
func ways(o *Option) []string {
	switch o.kind {
	case identity:
		return []string{"<placeholder> by header", "<placeholder> by session", "<placeholder> by prompt"}
	case approvals:
		return strings.Split(strings.Replace(approvalsUsage, "or ", "", 1), ", ")
	}
	return o.words
}

// explained returns what an option does, with what each of its values does.
func explained(o *Option) string {
	text := o.Explanation
	for i, does := range o.Values {
		text += " `" + ways(o)[i] + "` " + does + "."
	}
	return text
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
