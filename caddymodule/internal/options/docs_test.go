package options

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the README's table and the chart's schema")

// TestReadmeHasTheTable: a row for each option, whose values and default are the
// table's. What the rows say beside that, and their order, is the README's.
func TestReadmeHasTheTable(t *testing.T) {
	const head = "| subdirective | values, **default** | |\n|---|---|---|\n"
	generated(t, "../../../README.md", head, "\n\n", func(old string) string {
		var rows []string
		written := make(map[string]bool)
		for row := range strings.SplitSeq(old, "\n") {
			cells := strings.SplitN(row, " | ", 3)
			o := Lookup(strings.Trim(cells[0], "| `"))
			if len(cells) < 3 || o == nil || written[o.Name] {
				continue
			}
			written[o.Name] = true
			rows = append(rows, fmt.Sprintf("| `%s` | %s | %s", o.Name, cell(o), cells[2]))
		}
		for _, o := range table {
			if !written[o.Name] {
				rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |", o.Name, cell(o), o.Help))
			}
		}
		return strings.Join(rows, "\n")
	})
}

// cell returns the values of an option, the default in bold.
func cell(o *Option) string {
	standard := "**`" + o.Default + "`**"
	switch k := o.kind.(type) {
	case size:
		return "size, " + standard + ", 1KiB to 1GiB"
	case duration:
		if k.off && o.Default != "off" {
			return "duration, `off`, " + standard
		}
		return "duration, " + standard
	case directory:
		return "directory, **none**"
	case tools:
		return "emoji and name, repeatable"
	}
	values := "`" + strings.ReplaceAll(o.Usage(), "|", "` `") + "`"
	return strings.Replace(values, "`"+o.Default+"`", standard, 1)
}

// generated compares what is between head and tail in a file with what render makes
// of it, and writes that with -update.
func generated(t *testing.T, file, head, tail string, render func(old string) string) {
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
	want := render(old)
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
