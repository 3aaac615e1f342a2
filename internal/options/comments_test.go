package options

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/dustin/go-humanize"
)

// TestFieldsAreDescribedByTheTable: the comment of each field of the handler, which Caddy's
// site and docs/schema/config.json show, is what the table says.
func TestFieldsAreDescribedByTheTable(t *testing.T) {
	const file = "../../caddymodule/handler.go"
	for _, o := range table {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		field := regexp.MustCompile("\t\\w+ .*`json:\"" + o.Name + ",omitempty\"`").FindString(string(b))
		if field == "" {
			t.Fatalf("%s has no field for %s", file, o.Name)
		}
		before := string(b[:strings.Index(string(b), field)])
		head := before[:strings.LastIndex(before, "\n\n")+2]
		if i := strings.LastIndex(before, "{\n"); i > len(head) {
			head = before[:i+2]
		}
		text := strings.ReplaceAll(explained(o)+" "+inJSON(o), "Default: ", "Default:\x00") // on one line
		generated(t, file, head, field, strings.ReplaceAll(wrapped("\t// ", text), "\x00", " "))
	}
}

// inJSON says what a value is in JSON, and the default.
func inJSON(o *Option) string {
	switch o.kind {
	case size:
		n, _ := humanize.ParseBytes(o.Default)
		return fmt.Sprintf("It is a number of bytes from %d (1KiB) to %d (1GiB). Default: %d (%s).", minSize, maxSize, n, o.Default)
	case onOff:
		return fmt.Sprintf("Default: %v.", o.Default == "on")
	case timeout:
		return "With 0 it is off. Default: " + strings.Replace(o.Default, "off", "0", 1) + "."
	case duration:
		return "Default: " + o.Default + "."
	case words:
		return "Default: `" + o.Default + "`."
	case directory:
		return "Default: none."
	case identity:
		return "In JSON it is an object with `header`, `session` and `prompt`. Default: none."
	case approvals:
		return "In JSON it is an object with `link`, `text`, `reply`, `by` and `replicas`. Default: none."
	}
	return "In JSON it is an object that has the names by emoji. Default: none."
}

// TestCaddyfilesAreDescribedByTheTable: the syntax in the comment of UnmarshalCaddyfile, and
// Caddyfile.example, which has each option commented out, with its default or an example.
func TestCaddyfilesAreDescribedByTheTable(t *testing.T) {
	var syntax strings.Builder
	var example []string
	for _, o := range table {
		value, line := o.Usage(), o.Name+" "+o.Default
		for _, kind := range []string{"size", "duration", "directory"} {
			value = strings.Replace(value, kind, "<"+kind+">", 1)
		}
		switch o.kind {
		case tools:
			value = "<emoji> <name>"
		case identity:
			value = identityUsage
		case approvals:
			for way := range strings.SplitSeq(strings.Replace(approvalsUsage, "or ", "", 1), ", ") {
				fmt.Fprintf(&syntax, "//\t    %-19s%s\n", o.Name, way)
			}
		}
		if o.kind != approvals {
			fmt.Fprintf(&syntax, "//\t    %-19s%s\n", o.Name, value)
		}
		if o.Default == "" {
			line = o.Example
		}
		example = append(example, wrapped("\t\t## ", strings.ReplaceAll(explained(o), "`", ""))+"\t\t# "+line+"\n")
	}
	generated(t, "../../caddymodule/caddyfile.go", "//\thermes [<matcher>] {\n", "//\t}\n", syntax.String())
	generated(t, "../../Caddyfile.example", "\n\thermes {\n", "\t}\n", strings.Join(example, "\n"))
}

// wrapped returns a text in lines of at most 80 columns, each after prefix.
func wrapped(prefix, text string) string {
	var b strings.Builder
	line := prefix
	for word := range strings.FieldsSeq(text) {
		if line != prefix && len([]rune(line))+4*strings.Count(prefix, "\t")+len([]rune(word)) > 80 {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
			line = prefix
		}
		line += word + " "
	}
	b.WriteString(strings.TrimRight(line, " ") + "\n")
	return b.String()
}
