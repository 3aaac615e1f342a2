package caddymodule

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/dustin/go-humanize"

	"github.com/hermes-sidecar/hermes-sidecar/internal/options"
)

// The handler has a field for each option of the table and no others, and each
// takes what a line of the Caddyfile gives.
func TestFieldsOfTheHandlerAreTheOptions(t *testing.T) {
	handler := reflect.TypeFor[Handler]()
	named := make(map[string]bool)
	for i := range handler.NumField() {
		name, tail, _ := strings.Cut(handler.Field(i).Tag.Get("json"), ",")
		if name == "" {
			continue
		}
		named[name] = true
		if options.Lookup(name) == nil || tail != "omitempty" {
			t.Errorf("%s is no option, or not omitted when empty", name)
		}
	}
	if len(named) != len(options.All()) {
		t.Errorf("%d fields, %d options", len(named), len(options.All()))
	}
	given := make(options.Values)
	for _, line := range append(hermesLines, "record /tmp", "record_max 1MB") {
		name, value, _ := strings.Cut(line, " ")
		if err := given.Set(name, strings.Fields(strings.ReplaceAll(value, `"`, ""))); err != nil {
			t.Error(err)
		}
	}
	if len(given) != len(options.All()) {
		t.Errorf("%d options are given, want %d", len(given), len(options.All()))
	}
	h := new(Handler)
	given.Fill(h)
	if again := options.Of(h); !reflect.DeepEqual(again, given) {
		t.Errorf("the handler has\n%v\nwant\n%v", again, given)
	}
}

// The defaults and values of the table are those of the code: that each default is
// the same as none, and that each kind takes what it says.
func TestTableTellsTheTruth(t *testing.T) {
	given := make(options.Values)
	for _, o := range options.All() {
		if o.Help == "" {
			t.Errorf("%s is not described", o.Name)
		}
		if o.Name == "tool" || o.Name == "record" {
			continue
		}
		if err := given.Set(o.Name, []string{o.Default}); err != nil {
			t.Errorf("default: %v", err)
		}
		usage := strings.Split(o.Usage(), "|")
		refused := func(value string) string {
			if err := make(options.Values).Set(o.Name, []string{value}); err != nil {
				return err.Error()
			}
			return ""
		}
		switch {
		case usage[0] == "duration":
			if off := len(usage) == 2 && usage[1] == "off"; off != (refused("off") == "") {
				t.Errorf("%s: %s", o.Name, o.Usage())
			}
		case usage[0] == "size":
			if !strings.Contains(refused("duration"), "must be a size") {
				t.Errorf("%s: %v", o.Name, refused("duration"))
			}
		default:
			last := len(usage) - 1
			want := "must be " + strings.Join(usage[:last], ", ") + " or " + usage[last]
			if got := refused("size"); !strings.HasSuffix(got, want) {
				t.Errorf("%s: error %v, want ...%s", o.Name, got, want)
			}
		}
	}
	if err := given.Check(); err != nil {
		t.Error(err)
	}
	standard, err := given.Compile()
	if err != nil {
		t.Fatal(err)
	}
	defaults, err := make(options.Values).Compile()
	if err != nil {
		t.Fatal(err)
	}
	sameOptions(t, standard, defaults)
}

// What Caddy's documentation shows of an option, the comment of its field, ends in
// the table's default.
func TestCommentsOfTheHandlerTellTheDefaults(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "handler.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	ast.Inspect(file, func(n ast.Node) bool {
		f, ok := n.(*ast.Field)
		if !ok || f.Tag == nil {
			return true
		}
		name, _, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
		o := options.Lookup(name)
		if o == nil {
			return true
		}
		checked++
		want := "Default: " + jsonDefault(o)
		if comment := strings.Join(strings.Fields(f.Doc.Text()), " "); !strings.Contains(comment, want+".") && !strings.Contains(comment, want+" (") && !strings.Contains(comment, want+",") {
			t.Errorf("%s: no %q in %s", name, want, comment)
		}
		return true
	})
	if checked != len(options.All()) {
		t.Errorf("%d comments, want %d", checked, len(options.All()))
	}
}

// jsonDefault returns the default as JSON has it.
func jsonDefault(o *options.Option) string {
	n, err := humanize.ParseBytes(o.Default)
	switch {
	case o.Default == "":
		return "none"
	case o.Usage() == "on|off":
		return "false"
	case o.Usage() == "size" && err == nil:
		return strconv.FormatUint(n, 10)
	case o.Usage() == "duration|off" && o.Default == "off":
		return "0"
	}
	if _, err := caddy.ParseDuration(o.Default); err == nil {
		return o.Default
	}
	return "`" + o.Default + "`"
}

// The syntax in the comment of UnmarshalCaddyfile is the table.
func TestSyntaxInTheCommentIsTheTable(t *testing.T) {
	source, err := os.ReadFile("caddyfile.go")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, o := range options.All() {
		value := o.Usage()
		for _, kind := range []string{"size", "duration", "directory"} {
			value = strings.Replace(value, kind, "<"+kind+">", 1)
		}
		if o.Name == "tool" {
			value = "<emoji> <name>"
		}
		want.WriteString("//\t    " + o.Name + strings.Repeat(" ", 19-len(o.Name)) + value + "\n")
	}
	if !strings.Contains(string(source), "//\thermes [<matcher>] {\n"+want.String()+"//\t}\n") {
		t.Errorf("the comment does not have\n%s", want.String())
	}
}
