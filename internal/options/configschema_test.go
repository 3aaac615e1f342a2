package options

import (
	"fmt"
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dustin/go-humanize"

	"github.com/hermes-sidecar/hermes-sidecar/resume"
)

// TestSchemaOfTheConfiguration: the handlers in docs/schema/config.json are what the table says of hermes,
// ofResume says of hermes_resume, ofApprovals of hermes_approvals, ofQueue of hermes_queue, and the doc comments say of all.
// The rest of the schema is written by hand, and integration/configuration compares all of it with the program.
func TestSchemaOfTheConfiguration(t *testing.T) {
	for _, h := range []struct {
		name, file string
		options    object
	}{
		{"hermes", "../../caddymodule/handler.go", ofTable(t)},
		{"hermes_resume", "../../resume/resumecaddy/handler.go", ofResume()},
		{"hermes_approvals", "../../desk/deskcaddy/handler.go", ofApprovals()},
		{"hermes_queue", "../../queue/queuecaddy/handler.go", ofQueue()},
	} {
		want, err := text(handlerSchema(t, h.file, h.name, h.options), "    ")
		if err != nil {
			t.Fatal(err)
		}
		end := "\n    }"
		generated(t, "../../docs/schema/config.json", `    "`+h.name+`": `, end, strings.TrimSuffix(want, end))
	}
}

// ofTable returns what values of the options of hermes are in JSON.
func ofTable(t *testing.T) (all object) {
	for _, o := range table {
		all = append(all, member{o.Name, append(object{{"title", o.Help}}, configOption(t, o)...)})
	}
	return all
}

// configOption returns what a value of the option is in JSON, and the default.
func configOption(t *testing.T, o *Option) object {
	t.Helper()
	switch o.kind {
	case size:
		n, err := humanize.ParseBytes(o.Default)
		if err != nil {
			t.Fatal(err)
		}
		return sized(minSize, int(n))
	case duration, timeout:
		if o.Default == "off" {
			return lasting(0)
		}
		return lasting(o.Default)
	case tools:
		return ref("#/$defs/tools")
	case approvals:
		return ref("#/$defs/approvals")
	case identity:
		return ref("#/$defs/identity")
	case onOff:
		return object{{"type", "boolean"}, {"default", o.Default == "on"}}
	case words:
		return object{{"enum", o.words}, {"default", o.Default}}
	case directory:
		return object{{"type", "string"}, {"minLength", 1}}
	}
	t.Fatalf("%s: the schema has no definition of its kind", o.Name)
	return nil
}

// ofResume returns what values of the options of hermes_resume are in JSON.
func ofResume() object {
	const least = 64 << 10
	entry := func(name, title string, value object) member {
		return member{name, append(object{{"title", title}}, value...)}
	}
	always := object{{"type", "object"}, {"propertyNames", object{{"enum", resume.APIs()}}}, {"additionalProperties", ref("#/$defs/duration")}}
	return object{
		entry("detach", "How long the agent continues without a client", lasting("10m")),
		entry("keep", "How long a stream is kept after its end", lasting("5m")),
		entry("always", "Every POST of JSON asks", object{{"type", "boolean"}, {"default", false}}),
		entry("always_for", "Every POST of JSON to these APIs asks", always),
		entry("key", "What the key of a request is made of", object{{"type", "array"}, {"contains", object{{"type", "string"}, {"pattern", `\{[^}]*\}`}}}, {"items", object{{"type", "string"}}}}),
		entry("key_body", "The body is a part of that key", object{{"type", "boolean"}, {"default", false}}),
		entry("max_stream", "Beyond it, the oldest events of a stream go", sized(least, 16<<20)),
		entry("max_memory", "What all streams may take together", sized(least, 64<<20)),
		entry("max_detached", "How many streams may continue without a client", object{{"type", "integer"}, {"minimum", 1}, {"default", 4}}),
	}
}

// ofApprovals returns what values of the options of hermes_approvals are in JSON.
func ofApprovals() object {
	return object{
		{"path", object{{"title", "The path in front of the ticket"}, {"type", "string"}, {"pattern", `^(/[^/*{}?#%]+)+$`}, {"default", "/hermes/approve"}}},
		{"by", object{{"title", "Who opens the page"}, {"type", "string"}, {"pattern", `\{[^}]*\}`}}},
		{"login", object{{"title", "The URL that returns who is signed in"}, {"type", "string"}, {"pattern", "^https?://[^/]"}}},
		{"allow_always", object{{"title", "The page offers always, if Hermes does"}, {"type", "boolean"}, {"default", false}}},
	}
}

// ofQueue returns what values of the options of hermes_queue are in JSON.
func ofQueue() object {
	return object{
		{"runs", object{{"title", "How many runs are under way at once"}, {"type", "integer"}, {"minimum", 1}, {"default", 8}}},
		{"wait", append(object{{"title", "How long a request may wait"}}, lasting("2m")...)},
		{"waiting", object{{"title", "How many requests may wait at once"}, {"type", "integer"}, {"minimum", 0}, {"default", 100}}},
		{"by", object{{"title", "What identifies a client"}, {"type", "string"}, {"pattern", `\{[^}]*\}`}}},
	}
}

func sized(least, standard int) object {
	return object{{"type", "integer"}, {"minimum", least}, {"maximum", maxSize}, {"default", standard}}
}

func lasting(standard any) object {
	return append(ref("#/$defs/duration"), member{"default", standard})
}

// handlerSchema returns the schema of the handler in a file. Each of its fields has to be
// among the options, and describes that.
func handlerSchema(t *testing.T, file, name string, options object) object {
	t.Helper()
	handler, fields, modules := docsOfHandler(t, file)
	properties := object{{"handler", object{{"const", name}}}}
	for _, o := range options {
		said, ok := fields[o.name]
		if !ok {
			t.Errorf("%s has no field for %s", file, o.name)
		}
		delete(fields, o.name)
		s := o.value.(object)
		for _, m := range s {
			if m.name == "default" && !strings.Contains(strings.ReplaceAll(said, "`", "")+" ", fmt.Sprintf("Default: %v", m.value)) {
				t.Errorf("%s: the default is %v, its comment says %q", o.name, m.value, said)
			}
		}
		properties = append(properties, member{o.name, slices.Insert(s, 1, member{"description", said})})
	}
	for _, name := range slices.Sorted(maps.Keys(modules)) {
		properties = append(properties, member{name, object{
			{"title", "A module of Caddy's, which has options of its own"},
			{"description", fields[name]},
			{"type", "object"},
			{"required", []string{modules[name]}},
			{"properties", object{{modules[name], object{{"type", "string"}}}}},
		}})
		delete(fields, name)
	}
	for name := range fields {
		t.Errorf("%s has a field for %s: say here what its values are", file, name)
	}
	_, does, _ := strings.Cut(handler, " ")
	return object{
		{"title", "The handler " + name},
		{"description", "`" + name + "` " + does},
		{"type", "object"},
		{"required", []string{"handler"}},
		{"additionalProperties", false},
		{"properties", properties},
	}
}

// inlineKey finds the member that names the module in the tag of a field that takes one.
var inlineKey = regexp.MustCompile(`\binline_key=(\w+)`)

// docsOfHandler returns the doc comment of the handler in a file, as plain text, and those
// of its fields by their names in JSON. modules are those of the fields that take a module
// of Caddy's, each with the name of the member that names the module.
func docsOfHandler(t *testing.T, file string) (handler string, fields, modules map[string]string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	fields, modules = make(map[string]string), make(map[string]string)
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE {
			continue
		}
		s := g.Specs[0].(*ast.TypeSpec)
		if !strings.HasSuffix(s.Name.Name, "Handler") {
			continue
		}
		handler = firstParagraph(g.Doc.Text())
		for _, field := range s.Type.(*ast.StructType).Fields.List {
			if field.Tag == nil {
				continue
			}
			tag := reflect.StructTag(strings.Trim(field.Tag.Value, "`"))
			name, _, _ := strings.Cut(tag.Get("json"), ",")
			fields[name] = plain(field.Doc.Text())
			if m := inlineKey.FindStringSubmatch(tag.Get("caddy")); m != nil {
				modules[name] = m[1]
			}
		}
	}
	return handler, fields, modules
}

// plain returns a doc comment with each paragraph on one line.
func plain(doc string) string {
	var p comment.Parser
	printer := comment.Printer{TextWidth: -1}
	return strings.TrimSpace(string(printer.Text(p.Parse(doc))))
}

func firstParagraph(doc string) string {
	first, _, _ := strings.Cut(plain(doc), "\n\n")
	return first
}
